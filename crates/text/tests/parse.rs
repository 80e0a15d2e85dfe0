//! Answers taken apart: what each format writes, templates' own calls read back, any cut, any bytes.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "../../../tests/random.rs"]
mod random;

use common::{data, json as file};
use onebit_text::parse::{Event, Output};
use onebit_text::{ChatTemplate, Render};
use random::Random;
use serde_json::{Value, json};
use std::time::Instant;

/// What events add up to.
#[derive(Debug, Default, PartialEq)]
struct Answer {
    content: String,
    reasoning: String,
    /// Name, id, arguments.
    calls: Vec<(String, Option<String>, Value)>,
}

fn add_up(events: impl IntoIterator<Item = Event>) -> Answer {
    let (answer, broken) = add_up_open(events);
    assert!(broken.is_empty());
    answer
}

/// As [`add_up`], with the arguments of calls that broke off.
fn add_up_open(events: impl IntoIterator<Item = Event>) -> (Answer, Vec<String>) {
    let (mut answer, mut broken) = (Answer::default(), Vec::new());
    let mut open: Option<(String, Option<String>, String)> = None;
    for event in events {
        match event {
            Event::Content(text) => {
                assert!(!text.is_empty());
                answer.content.push_str(&text);
            }
            Event::Reasoning(text) => {
                assert!(!text.is_empty());
                answer.reasoning.push_str(&text);
            }
            // One that broke off may be followed by others.
            Event::ToolCallStart { name, id } => broken.extend(open.replace((name, id, String::new())).map(|(_, _, arguments)| arguments)),
            Event::ToolArguments(text) => open.as_mut().unwrap().2.push_str(&text),
            Event::ToolCallEnd => {
                let (name, id, arguments) = open.take().unwrap();
                let arguments: Value = serde_json::from_str(&arguments).unwrap();
                assert!(arguments.is_object());
                answer.calls.push((name, id, arguments));
            }
        }
    }
    broken.extend(open.map(|(_, _, arguments)| arguments));
    (answer, broken)
}

struct Setting<'a> {
    output: Output,
    prompt: &'a str,
    tools: Option<&'a Value>,
    reasoning: bool,
}

impl Setting<'_> {
    fn read<'t>(&self, pieces: impl IntoIterator<Item = &'t str>) -> Answer {
        let mut parser = self.output.parser(self.prompt, self.tools, self.reasoning);
        let mut events: Vec<Event> = pieces.into_iter().flat_map(|piece| parser.push(piece)).collect();
        events.extend(parser.finish());
        add_up(events)
    }

    fn stream<'t>(&self, pieces: impl IntoIterator<Item = &'t str>) -> (Answer, Vec<String>) {
        let mut parser = self.output.parser(self.prompt, self.tools, self.reasoning).streaming();
        let mut events: Vec<Event> = pieces.into_iter().flat_map(|piece| parser.push(piece)).collect();
        events.extend(parser.finish());
        add_up_open(events)
    }

    /// The answer, the same for the whole text, letter by letter, and in random pieces. With streamed arguments, too, it does not matter
    /// where the text is cut; gives what is read then as well.
    fn check_cuts(&self, text: &str, random: &mut Random) -> (Answer, (Answer, Vec<String>)) {
        let (whole, streamed) = (self.read([text]), self.stream([text]));
        for cut in [text.split("").filter(|s| !s.is_empty()).collect(), pieces(text, random), pieces(text, random), pieces(text, random)] {
            assert_eq!(self.read(cut.iter().copied()), whole, "{cut:?}");
            assert_eq!(self.stream(cut.iter().copied()), streamed, "{cut:?}");
        }
        (whole, streamed)
    }

    /// The answer; what is streamed adds up to it, but for calls that break off.
    fn check(&self, text: &str, random: &mut Random) -> Answer {
        let (whole, (streamed, broken)) = self.check_cuts(text, random);
        assert!(streamed == whole || !broken.is_empty(), "{text:?}: {streamed:?}, not {whole:?}");
        whole
    }
}

fn pieces<'t>(text: &'t str, random: &mut Random) -> Vec<&'t str> {
    let (mut rest, mut out) = (text, Vec::new());
    while !rest.is_empty() {
        let mut end = random.below(20).clamp(1, rest.len());
        while !rest.is_char_boundary(end) {
            end += 1;
        }
        let (piece, after) = rest.split_at(end);
        out.push(piece);
        rest = after;
    }
    out
}

fn tools() -> Value {
    let properties =
        json!({ "city": { "type": "string" }, "days": { "type": "integer" }, "o": { "type": "object" }, "l": { "type": "array" } });
    let tool = |name: &str| json!({ "type": "function", "function": { "name": name, "description": "d", "parameters": { "type": "object", "properties": properties } } });
    json!([tool("get_weather"), tool("f")])
}

fn cases() -> Value {
    file(&data("calls.json"))
}

#[test]
fn each_format_reads_what_its_models_write() {
    let (tools, mut random) = (tools(), Random(random::seed()));
    let mut seen = Vec::new();
    for format in cases().as_array().unwrap() {
        let marks = format["marks"].as_str().unwrap();
        let output = Output::of(marks);
        assert_eq!(output.name(), format["format"], "{marks}");
        seen.push(output.name());
        for case in format["cases"].as_array().unwrap() {
            let text = case["text"].as_str().unwrap();
            let prompt = case["prompt"].as_str().unwrap_or_default();
            let setting = Setting { output: output.clone(), prompt, tools: Some(&tools), reasoning: true };
            let got = setting.check(text, &mut random);
            let text_of = |name: &str| case[name].as_str().unwrap_or_default();
            assert_eq!(
                (got.content.as_str(), got.reasoning.as_str()),
                (text_of("content"), text_of("reasoning")),
                "{}: {text}",
                output.name()
            );
            let calls: Vec<Value> = got
                .calls
                .into_iter()
                .map(|(name, id, arguments)| id.map_or_else(|| json!([name, arguments]), |id| json!([name, arguments, id])))
                .collect();
            assert_eq!(Value::from(calls), case.get("calls").cloned().unwrap_or(json!([])), "{}: {text}", output.name());
        }
    }
    for format in onebit_text::parse::formats::ALL {
        assert!(seen.contains(&format.name), "{} has no case", format.name);
    }
}

/// The calls that the round trips go through.
fn arguments() -> [Value; 5] {
    [
        json!({ "city": "Zürich", "days": 2 }),
        json!({}),
        json!({ "city": "5", "days": -7, "o": { "k": [1, { "x": true }], "s": "a b" }, "l": ["x", 1.5] }),
        json!({ "city": "two\nlines, a {brace} and [bracket]; 'single' <tag>" }),
        json!({ "city": "\"quoted\" \\ back" }),
    ]
}

/// A template's text for a message, without what comes before and after it.
fn answer_of(template: &ChatTemplate, message: &Value) -> Result<(String, String), String> {
    let user = json!({ "role": "user", "content": "Q" });
    let options = |prompt| Render { tools: Some(tools()), add_generation_prompt: prompt, ..Render::default() };
    let prompt = template.render(&json!([user]), &options(true)).map_err(|e| e.to_string())?;
    let whole = template.render(&json!([user, message]), &options(false)).map_err(|e| e.to_string())?;
    let common = prompt.bytes().zip(whole.bytes()).take_while(|(a, b)| a == b).count();
    let mut common = (0..=common).rev().find(|n| whole.is_char_boundary(*n)).unwrap();
    // Some leave out what opened the reasoning when they write it back.
    if prompt[common..].trim() == "Here are my reasoning steps:" && whole[common..].contains("[BEGIN FINAL RESPONSE]") {
        return Ok((prompt, whole[common..].to_owned()));
    }
    // Not within a mark.
    if let Some(open) = whole[..common].rfind(['<', '[']).filter(|open| !whole[*open..common].contains(['>', ']'])) {
        common = open;
    }
    Ok((whole[..common].to_owned(), whole[common..].to_owned()))
}

/// What an assistant says besides its calls.
type Said = (&'static str, Option<&'static str>);

fn message(calls: &[(&str, &Value)], (content, reasoning): Said, as_text: bool) -> Value {
    let call = |(i, (name, arguments)): (usize, &(&str, &Value))| {
        let arguments = if as_text { arguments.to_string().into() } else { (*arguments).clone() };
        json!({ "id": format!("call0000{i}"), "type": "function", "function": { "name": name, "arguments": arguments } })
    };
    let calls = calls.iter().enumerate().map(call).collect::<Vec<_>>();
    let mut message = json!({ "role": "assistant", "content": content, "reasoning_content": reasoning });
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    message
}

/// Renders calls, and reads them back, with what was said besides as far as the template writes it. Gives how many sets of calls came
/// back, of all.
fn round_trip(name: &str, template: &ChatTemplate, ends: &[&str]) -> (usize, usize, Vec<String>) {
    const SAID: [Said; 2] = [("", None), ("I look, then.", Some("Let me see."))];
    let (tools, mut random, output) = (tools(), Random(1), Output::of(template.source()));
    let (mut good, mut all, mut bad) = (0, 0, Vec::new());
    let arguments = arguments();
    let mut sets: Vec<Vec<(&str, &Value)>> = arguments.iter().map(|a| vec![("get_weather", a)]).collect();
    sets.push(vec![("get_weather", &arguments[0]), ("f", &arguments[2])]);
    for (set, said) in sets.iter().flat_map(|set| SAID.map(|said| (set, said))) {
        all += 1;
        // Some take arguments as text only, some no text beside reasoning.
        let ways = [(said, false), (said, true), (("", said.1), false)];
        let rendered = ways.map(|(said, as_text)| answer_of(template, &message(set, said, as_text)));
        let [first, ..] = &rendered;
        let Some((prompt, text)) = rendered.iter().find_map(|way| way.as_ref().ok()) else {
            bad.push(format!("{name}: {first:?}"));
            continue;
        };
        // What the engine takes for the end is not part of an answer.
        let trimmed = text.trim_end();
        let text = ends.iter().find_map(|end| trimmed.strip_suffix(end)).unwrap_or(trimmed);
        // A message without reasoning closes what the prompt for an answer opens.
        let text = text.strip_prefix("</think>").filter(|_| !prompt.ends_with("<think>")).unwrap_or(text);
        // The same where the template leaves reasoning out.
        let prompt = if prompt.trim_end().ends_with("<think>") && !text.contains("</think>") { "" } else { prompt };
        let setting = Setting { output: output.clone(), prompt, tools: Some(&tools), reasoning: true };
        let got = setting.check(text, &mut random);
        let calls: Vec<(&str, &Value)> = got.calls.iter().map(|(name, _, arguments)| (name.as_str(), arguments)).collect();
        let written = |said: &'static str| if text.contains(said) { said } else { "" };
        let (content, reasoning) = (written(said.0), written(said.1.unwrap_or_default()));
        if calls == *set && got.content.trim() == content && got.reasoning == reasoning {
            good += 1;
        } else {
            bad.push(format!("{name} ({}): {prompt:?} {text:?}\n   gave {got:?}", output.name()));
        }
    }
    (good, all, bad)
}

/// What may follow an answer, longer ones first.
const ENDS: &[&str] = &[
    "<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|><|START_THINKING|><|END_THINKING|>",
    "<｜end▁of▁sentence｜><｜end▁of▁sentence｜>",
    "<｜end▁of▁sentence｜><｜Assistant｜><｜end▁of▁sentence｜>",
    "<|END_OF_TURN_TOKEN|>",
    "<｜hy_eos:opensource｜>",
    "<｜end▁of▁sentence｜>",
    "<end_of_sentence>",
    "<|tool_response>",
    "<|end_of_text|>",
    "<|message_sep|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end|>\n</s>",
    "</assistant>",
    "<SPECIAL_12>",
    "<|role_end|>",
    "<seed:eos>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|im_end|>",
    "<|return|>",
    "<|call|>",
    "<|user|>",
    "<turn|>",
    "<|end|>",
    "<|eot|>",
    "<sep>",
    "</s>",
    "[e~[",
];

/// Small templates that write calls as the published ones do, one for each format.
#[test]
fn calls_come_back_from_templates() {
    for format in cases().as_array().unwrap() {
        let Some(source) = format["template"].as_str() else { continue };
        let name = format["format"].as_str().unwrap();
        let template = ChatTemplate::new(source, "", "").unwrap();
        assert_eq!(Output::of(source).name(), name);
        let (good, all, bad) = round_trip(name, &template, ENDS);
        let lost = format["lost"].as_u64().unwrap_or(0) as usize;
        assert_eq!(good, all - lost, "{bad:#?}");
    }
}

/// Published templates whose calls do not all come back, and how many of the twelve do not.
const LOST: &[(&str, usize)] = &[
    // They write no calls.
    ("LFM2-8B-A1B", 12),
    ("LFM2.5-Instruct", 12),
    ("HuggingFaceTB-SmolLM3-3B", 12),
    ("ibm-granite-granite-3.3-2B-Instruct", 12),
    ("google-gemma-2-2b-it", 12),
    ("microsoft-Phi-3.5-mini-instruct", 12),
    ("llama-cpp-rwkv-world", 12),
    ("deepseek-ai-DeepSeek-R1-Distill-Llama-8B", 12),
    // Nor do they take tools as they are usually given.
    ("fireworks-ai-llama-3-firefunction-v2", 12),
    ("CohereForAI-c4ai-command-r-plus-tool_use", 12),
    ("llama-cpp-deepseek-r1", 12),
    // What they write beside calls belongs to another turn.
    ("deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", 6),
    ("NVIDIA-Nemotron-Nano-v2", 6),
    // They take or write one call at a time.
    ("meta-llama-Llama-3.1-8B-Instruct", 2),
    ("meta-llama-Llama-3.2-3B-Instruct", 2),
    ("meta-llama-Llama-3.3-70B-Instruct", 2),
    ("GigaChat3-10B-A1.8B", 2),
    ("GigaChat3.1-10B-A1.8B", 2),
    ("openai-gpt-oss-120b", 2),
];

/// The templates of `tools/fetch-templates.py`, where `ONEBIT_TEMPLATES` names their folder.
#[test]
fn calls_come_back_from_published_templates() {
    let Some(folder) = std::env::var_os("ONEBIT_TEMPLATES") else {
        eprintln!("SKIPPED: ONEBIT_TEMPLATES names no folder");
        return;
    };
    let (mut n, mut wrong) = (0, Vec::new());
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "jinja") {
            continue;
        }
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let source = common::read(&path);
        let template = ChatTemplate::new(&source, "<s>", "</s>").unwrap();
        let (good, all, bad) = round_trip(&name, &template, ENDS);
        eprintln!("{good} of {all}: {name} ({})", Output::of(&source).name());
        let lost = LOST.iter().find(|(n, _)| **n == name).map_or(0, |(_, lost)| *lost);
        if good + lost != all {
            wrong.push(format!("{name}: {good} of {all}\n{}", bad.join("\n")));
        }
        n += 1;
    }
    assert!(n > 0);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The published vocabularies' chats with calls, from the prompt that transformers rendered.
#[test]
fn rendered_chats() {
    let Some(path) = common::shared("vectors/text/qwen3.json") else { return };
    let chats = file(&path);
    let chat = chats["chats"].as_array().unwrap().iter().find(|c| c["name"] == "call and result").unwrap();
    let text = chat["text"].as_str().unwrap();
    let (prompt, rest) = text.split_once("Weather?<|im_end|>\n<|im_start|>assistant\n").unwrap();
    let answer = rest.split_once("<|im_end|>").unwrap().0;
    let tools = &chat["args"]["tools"];
    let setting = Setting { output: Output::of("<tool_call> <think></think>"), prompt, tools: Some(tools), reasoning: true };
    let got = setting.check(answer, &mut Random(1));
    let call = &chat["args"]["messages"][1]["tool_calls"][0]["function"];
    assert_eq!((got.content.as_str(), got.calls), ("", vec![("get_weather".to_owned(), None, call["arguments"].clone())]));
}

#[test]
fn without_tools_or_reasoning_text_is_left() {
    let text = "  <think>a</think>\n\n<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call> b ";
    let output = Output::of("<tool_call></think>");
    let mut random = Random(2);
    let tools = tools();
    let got = Setting { output: output.clone(), prompt: "", tools: None, reasoning: false }.check(text, &mut random);
    assert_eq!(got, Answer { content: text.to_owned(), ..Answer::default() });
    let got = Setting { output: output.clone(), prompt: "", tools: None, reasoning: true }.check(text, &mut random);
    assert_eq!((got.reasoning.as_str(), got.content.as_str()), ("a", "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call> b "));
    let got = Setting { output, prompt: "", tools: Some(&tools), reasoning: false }.check(text, &mut random);
    assert_eq!((got.content.as_str(), got.calls.len()), ("  <think>a</think>b ", 1));
}

/// Text is given out as soon as it is sure.
#[test]
fn content_streams() {
    let tools = tools();
    let mut parser = Output::of("<tool_call></think>").parser("", Some(&tools), true);
    let content = |text: &str| vec![Event::Content(text.to_owned())];
    assert_eq!(parser.push("Hello"), content("Hello"));
    assert_eq!(parser.push(" "), vec![]);
    assert_eq!(parser.push("you <tool"), content(" you"));
    assert_eq!(parser.push("box> <"), content(" <toolbox>"));
    assert_eq!(parser.push("tool_call>{\"name\": \"f\""), vec![]);
    assert_eq!(parser.push("}</tool_call"), vec![]);
    let call = |id| vec![Event::ToolCallStart { name: "f".into(), id }, Event::ToolArguments("{}".into()), Event::ToolCallEnd];
    assert_eq!(parser.push(">"), call(None));
    assert_eq!(parser.finish(), vec![]);
}

/// Arguments come as they are written: JSON letter by letter, others value by value.
#[test]
fn arguments_stream() {
    let tools = tools();
    let parser = |marks: &str| Output::of(marks).parser("", Some(&tools), true).streaming();
    let start = |name: &str| Event::ToolCallStart { name: name.into(), id: None };
    let more = |text: &str| Event::ToolArguments(text.into());
    let mut json = parser("<tool_call>");
    assert_eq!(json.push("<tool_call>{\"name\": \"f\", \"argum"), []);
    assert_eq!(json.push("ents\": {\"city\": \"Zü"), [start("f"), more("{\"city\": \"Zü")]);
    assert_eq!(json.push("rich</tool"), [more("rich")]);
    assert_eq!(json.push("_call>\", \"days\": 1"), [more("</tool_call>\", \"days\": ")]);
    assert_eq!(json.push("2}"), [more("12}"), Event::ToolCallEnd]);
    assert_eq!(json.push("}</tool_call>x"), [Event::Content("x".into())]);
    let mut tags = parser("<function= <parameter=");
    assert_eq!(tags.push("<tool_call>\n<function=f>\n"), [start("f")]);
    assert_eq!(tags.push("<parameter=city>\n5\n</parameter>"), [more("{\"city\":\"5\"")]);
    assert_eq!(tags.push("\n<parameter=days>5</param"), []);
    assert_eq!(tags.push("eter></function>"), [more(",\"days\":5}"), Event::ToolCallEnd]);
    assert_eq!(tags.push("</tool_call>"), []);
    // What breaks off is not made whole, so that nobody takes it for a call; what follows the block is read again.
    let mut broken = parser("<tool_call>");
    assert_eq!(broken.push("<tool_call>{\"name\": \"f\", \"arguments\": {\"city\": oops"), [start("f"), more("{\"city\": ")]);
    assert_eq!(broken.push("}}</tool_call>x"), [Event::Content("x".into())]);
    let mut cut = parser("<tool_call>");
    assert_eq!(cut.push("<tool_call>{\"name\": \"f\", \"arguments\": {\"city\": \"rm /t"), [start("f"), more("{\"city\": \"rm /t")]);
    assert_eq!(cut.finish(), []);
    // Without a mark a call is one of a known tool only.
    let mut bare = parser("<|start_header_id|>");
    assert_eq!(bare.push("{\"name\": \"unknown\", \"parameters\": {\"a\": 1}"), []);
    assert_eq!(bare.push("}").len(), 1);
}

/// Pieces of all formats' texts put together at random: the same however they are cut, and never a panic.
#[test]
fn any_text_however_cut() {
    let mut random = Random(random::seed());
    let (begun, tools, cases) = (Instant::now(), tools(), cases());
    let mut parts: Vec<String> = [
        "{",
        "}",
        "[",
        "]",
        "\"",
        "'",
        "(",
        ")",
        "<",
        ">",
        " ",
        "\n",
        "é",
        "｜",
        "\\",
        "=",
        ",",
        ":",
        ";",
        "name",
        "f",
        "[f(",
        "functions.",
    ]
    .map(String::from)
    .into();
    for format in cases.as_array().unwrap() {
        for case in format["cases"].as_array().unwrap() {
            let text = case["text"].as_str().unwrap();
            parts.push(text.to_owned());
            for _ in 0..6 {
                parts.extend(pieces(text, &mut random).into_iter().map(str::to_owned));
            }
        }
    }
    let sources: Vec<(&str, Vec<&str>)> = cases
        .as_array()
        .unwrap()
        .iter()
        .map(|format| {
            let own = format["cases"].as_array().unwrap().iter().map(|c| c["text"].as_str().unwrap()).collect();
            (format["marks"].as_str().unwrap(), own)
        })
        .collect();
    let mut n = 0;
    while begun.elapsed() < random::time() || n < 200 {
        let (source, own) = random.pick(&sources);
        let mut text = String::new();
        for _ in 0..random.below(6) + 1 {
            let own_text = *random.pick(own);
            match random.below(4) {
                0 => text.push_str(parts[random.below(parts.len())].as_str()),
                1 => text.push_str(own_text),
                2 => text.push_str(pieces(own_text, &mut random).first().unwrap_or(&"")),
                _ => {
                    let mut cut: Vec<&str> = pieces(own_text, &mut random);
                    let at = random.below(cut.len());
                    if !cut.is_empty() {
                        cut.remove(at);
                    }
                    text.push_str(&cut.concat());
                }
            }
        }
        let prompt = *random.pick(&["", "<think>\n", "<|start|>assistant"]);
        let tools = if random.below(4) > 0 { Some(&tools) } else { None };
        let setting = Setting { output: Output::of(source), prompt, tools, reasoning: random.below(4) > 0 };
        setting.check_cuts(&text, &mut random);
        n += 1;
    }
    eprintln!("{n} texts");
}

/// Long answers take time in proportion, whatever they are made of.
#[test]
fn long_answers_are_read_in_linear_time() {
    let tools = tools();
    for format in cases().as_array().unwrap() {
        let source = format["marks"].as_str().unwrap();
        let first = format["cases"][0]["text"].as_str().unwrap();
        for part in ["x", " ", "<", "[", "{", "\"", first, first.get(..first.len() - 1).unwrap_or("a")] {
            let text = part.repeat(2_000_000 / part.len());
            let setting = Setting { output: Output::of(source), prompt: "", tools: Some(&tools), reasoning: true };
            let begun = Instant::now();
            setting.read([text.as_str()]);
            let short: Vec<&str> = text.as_bytes().chunks(64).filter_map(|c| std::str::from_utf8(c).ok()).collect();
            setting.read(short.iter().copied());
            setting.stream(short);
            assert!(begun.elapsed().as_secs() < 10, "{}: {:?} for {part:?}", format["format"], begun.elapsed());
        }
    }
}
