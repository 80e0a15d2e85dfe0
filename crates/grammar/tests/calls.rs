//! Calls as each format writes them: what templates write is taken and read back, what is no call of these functions is not; and what a
//! model of random weights writes is a call that the schema allows.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)] // not all of it is needed here
#[path = "../../../tests/random.rs"]
mod random;

use onebit_grammar::{Answer, Calls, Compiler, Function, Grammar, GrammarError, Limits, Source, Word};
use onebit_text::parse::{Event, Opening, Output};
use onebit_text::{ChatTemplate, Render};
use random::Random;
use serde_json::{Value, json};

const END: u32 = 0;

/// Bytes after the end of an answer, and marks after those.
struct Vocabulary {
    compiler: Compiler,
    marks: Vec<&'static str>,
}

impl Vocabulary {
    fn new(marks: &[&'static str]) -> Self {
        Self::with(marks, true)
    }

    fn with(marks: &[&'static str], are_special: bool) -> Self {
        let bytes: Vec<[u8; 1]> = (0..=255u8).map(|b| [b]).collect();
        let bytes: &'static [[u8; 1]] = bytes.leak();
        let words = [Word::Special("<end>")].into_iter().chain(bytes.iter().map(|b| Word::Text(b)));
        let words = words.chain(marks.iter().map(|mark| if are_special { Word::Special(mark) } else { Word::Text(mark.as_bytes()) }));
        Self { compiler: Compiler::new(words, &[END], Limits::default()).unwrap(), marks: marks.to_vec() }
    }

    /// The token at the beginning of a text, and its length.
    fn first(&self, text: &str) -> (u32, usize) {
        let mark = self.marks.iter().zip(257..).filter(|(mark, _)| text.starts_with(**mark)).max_by_key(|(mark, _)| mark.len());
        mark.map_or((u32::from(text.as_bytes()[0]) + 1, 1), |(mark, id)| (id, mark.len()))
    }

    fn text(&self, id: u32) -> Vec<u8> {
        match id {
            END => vec![],
            257.. => self.marks[id as usize - 257].as_bytes().to_vec(),
            byte => vec![(byte - 1) as u8],
        }
    }

    /// How much of a text the grammar takes, or that it takes all of it and the answer may end there.
    fn taken(&self, grammar: &Grammar, text: &str) -> Result<(), usize> {
        let (mut guide, _) = grammar.begin();
        let mut at = 0;
        while at < text.len() {
            let (id, len) = if text.is_char_boundary(at) { self.first(&text[at..]) } else { (u32::from(text.as_bytes()[at]) + 1, 1) };
            if guide.is_complete() || !guide.mask().unwrap().allows(id) {
                return Err(at);
            }
            guide.accept(id).unwrap();
            at += len;
        }
        if guide.may_end() { Ok(()) } else { Err(at) }
    }
}

fn cases() -> Vec<Value> {
    serde_json::from_str(include_str!("../../text/tests/data/calls.json")).unwrap()
}

/// As in the tests of reading, and closed, so that nothing else is allowed.
fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": {
            "city": { "type": "string" }, "days": { "type": "integer" },
            "o": { "type": "object", "properties": { "k": { "type": "array", "items": { "anyOf": [{ "type": "integer" }, { "type": "object", "properties": { "x": { "type": "boolean" } }, "required": ["x"], "additionalProperties": false }] } }, "s": { "type": "string" } }, "additionalProperties": false },
            "l": { "type": "array", "items": { "anyOf": [{ "type": "string" }, { "type": "number" }] } },
        },
        "additionalProperties": false,
    })
}

fn function(name: &str) -> Function {
    Function { name: name.into(), parameters: Some(parameters()), strict: true }
}

fn tools() -> Value {
    let tool = |name: &str| json!({ "type": "function", "function": { "name": name, "parameters": parameters() } });
    json!([tool("get_weather"), tool("f")])
}

/// As templates take them, some of which know no more of schemas.
fn shown() -> Value {
    let properties =
        json!({ "city": { "type": "string" }, "days": { "type": "integer" }, "o": { "type": "object" }, "l": { "type": "array" } });
    let tool = |name: &str| json!({ "type": "function", "function": { "name": name, "description": "d", "parameters": { "type": "object", "properties": properties } } });
    json!([tool("get_weather"), tool("f")])
}

fn calls(output: &Output, functions: Vec<Function>) -> Calls {
    Calls { functions, written: output.written().to_vec(), required: true, single: false }
}

fn answer(calls: Calls, opening: Opening) -> Answer {
    Answer { source: None, calls: Some(calls), opening }
}

/// What past calls of a template are rendered as: the prompt, and what comes after it without the end of the turn.
fn written(template: &ChatTemplate, calls: &[(&str, &Value)], ends: &[&str]) -> Option<(String, String)> {
    let call = |(i, (name, arguments)): (usize, &(&str, &Value))| json!({ "id": format!("call0000{i}"), "type": "function", "function": { "name": name, "arguments": arguments } });
    let user = json!({ "role": "user", "content": "Q" });
    let list: Vec<Value> = calls.iter().enumerate().map(call).collect();
    let message = |list: Vec<Value>| json!({ "role": "assistant", "content": "", "tool_calls": list });
    // Some take arguments as text only.
    let mut texts = list.clone();
    texts.iter_mut().for_each(|call| call["function"]["arguments"] = call["function"]["arguments"].to_string().into());
    let options = |prompt| Render { tools: Some(shown()), add_generation_prompt: prompt, ..Render::default() };
    let prompt = template.render(&json!([user]), &options(true)).ok()?;
    let whole = [list, texts].into_iter().find_map(|list| template.render(&json!([user, message(list)]), &options(false)).ok())?;
    let mut common = prompt.bytes().zip(whole.bytes()).take_while(|(a, b)| a == b).count();
    while !whole.is_char_boundary(common) {
        common -= 1;
    }
    if let Some(open) = whole[..common].rfind(['<', '[']).filter(|open| !whole[*open..common].contains(['>', ']'])) {
        common = open;
    }
    let text = whole[common..].trim_end();
    let text = ends.iter().find_map(|end| text.strip_suffix(end)).unwrap_or(text).trim_end();
    Some((whole[..common].to_owned(), text.to_owned()))
}

fn read(output: &Output, prompt: &str, text: &str) -> (String, Vec<(String, Value)>) {
    let mut parser = output.parser(prompt, Some(&tools()), true);
    let mut events = parser.push(text);
    events.extend(parser.finish());
    let (mut content, mut calls) = (String::new(), Vec::<(String, String)>::new());
    for event in events {
        match event {
            Event::Content(text) => content.push_str(&text),
            Event::ToolCallStart { name, .. } => calls.push((name, String::new())),
            Event::ToolArguments(text) => calls.last_mut().unwrap().1.push_str(&text),
            Event::Reasoning(_) | Event::ToolCallEnd => {}
        }
    }
    (content, calls.into_iter().map(|(name, text)| (name, serde_json::from_str(&text).unwrap())).collect())
}

const ENDS: &[&str] = &[
    "<｜end▁of▁sentence｜><｜end▁of▁sentence｜>",
    "<｜end▁of▁sentence｜><｜Assistant｜><｜end▁of▁sentence｜>",
    "<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|><|START_THINKING|><|END_THINKING|>",
    "<|END_OF_TURN_TOKEN|>",
    "<｜hy_eos:opensource｜>",
    "<｜end▁of▁sentence｜>",
    "<|end_of_msg|>",
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
    "<|user|>",
    "<turn|>",
    "<|end|>",
    "<|eot|>",
    "<sep>",
    "</s>",
    "[e~[",
];

/// Arguments in the order of the schema.
fn arguments() -> [Value; 5] {
    [
        json!({ "city": "Zürich", "days": 2 }),
        json!({}),
        json!({ "city": "5", "days": -7, "o": { "k": [1, { "x": true }], "s": "a b" }, "l": ["x", 1.5] }),
        json!({ "city": "two\nlines, a {brace} and [bracket]; 'single' <tag>" }),
        json!({ "city": "\"quoted\" \\ back" }),
    ]
}

/// All calls that a template writes: `true` where they are taken and read back.
fn check(name: &str, source: &str, vocabulary: &Vocabulary) -> Vec<Result<(), String>> {
    let template = ChatTemplate::new(source, "<s>", "</s>").unwrap();
    let output = Output::of(source);
    let functions = vec![function("get_weather"), function("f")];
    let grammar =
        |opening| vocabulary.compiler.compile(&answer(calls(&output, functions.clone()), opening)).map_err(|e| format!("{name}: {e}"));
    let arguments = arguments();
    let mut sets: Vec<Vec<(&str, &Value)>> = arguments.iter().map(|a| vec![("get_weather", a)]).collect();
    sets.push(vec![("get_weather", &arguments[0]), ("f", &arguments[2])]);
    let mut out = Vec::new();
    for set in &sets {
        let Some((prompt, text)) = written(&template, set, ENDS) else {
            out.push(Err(format!("{name}: not rendered")));
            continue;
        };
        // A message without reasoning closes what the prompt for an answer opens.
        let text = text.strip_prefix("</think>").filter(|_| !prompt.ends_with("<think>")).unwrap_or(&text);
        // The same where the template leaves reasoning out.
        let opening = output.opening(&prompt);
        let is_open = opening.begun.is_some_and(|pair| !text.contains(opening.pairs[pair].1.as_str()));
        let (prompt, opening) = if is_open { ("", output.opening("")) } else { (prompt.as_str(), opening) };
        let grammar = match grammar(opening) {
            Ok(grammar) => grammar,
            Err(error) => {
                out.push(Err(error));
                continue;
            }
        };
        if let Err(at) = vocabulary.taken(&grammar, text) {
            let mut cut = at;
            while !text.is_char_boundary(cut) {
                cut -= 1;
            }
            out.push(Err(format!("{name} ({}): {:?} is refused before {:?}", output.name(), &text[..cut], &text[cut..])));
            continue;
        }
        let (content, got) = read(&output, prompt, text);
        let got: Vec<(&str, &Value)> = got.iter().map(|(name, value)| (name.as_str(), value)).collect();
        out.push(if got == *set && content.is_empty() { Ok(()) } else { Err(format!("{name}: {text:?} is read as {got:?}, {content:?}")) });
    }
    out
}

/// Marks of formats that vocabularies have as tokens.
const MARKS: &[&str] = &[
    "<think>",
    "</think>",
    "<|channel|>",
    "<|message|>",
    "<|start|>",
    "<|constrain|>",
    "<|call|>",
    "<|tool_call>",
    "<tool_call|>",
    "<|\"|>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁sep｜>",
    "｜DSML｜",
    "[TOOL_CALLS]",
    "[ARGS]",
    "[CALL_ID]",
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
    "<|open|>",
    "<|close|>",
    "<|sep|>",
    "]<]minimax[>[",
    "<|START_ACTION|>",
    "<|END_ACTION|>",
    "<|START_RESPONSE|>",
    "<|tools_prefix|>",
    "<|tools_suffix|>",
    "<|tool_call_start|>",
    "<|function_call|>",
    "<|role_sep|>",
    "<|tool_call|>",
    "<|/tool_call|>",
    "<|tool_calls|>",
    "<|tool_call:begin|>",
    "<|tool_call:name|>",
    "<|tool_call:args|>",
    "<|tool_call:end|>",
    "<|calls|>",
    "<|eom|>",
    "<seed:tool_call>",
    "</seed:tool_call>",
    "<arg_key>",
    "</arg_key>",
    "<arg_value>",
    "</arg_value>",
    "<tool_call>",
    "</tool_call>",
    "<tool_calls:opensource>",
    "</tool_calls:opensource>",
    "<tool_call:opensource>",
    "</tool_call:opensource>",
    "<tool_sep:opensource>",
    "<arg_key:opensource>",
    "</arg_key:opensource>",
    "<arg_value:opensource>",
    "</arg_value:opensource>",
    "<|end|>",
    "<|begin|>",
];

#[test]
fn what_small_templates_write_is_taken_and_read_back() {
    let mut wrong = Vec::new();
    for marks in [&[][..], MARKS] {
        let vocabulary = Vocabulary::new(marks);
        for case in cases() {
            let (name, Some(source)) = (case["format"].as_str().unwrap(), case["template"].as_str()) else { continue };
            wrong.extend(check(name, source, &vocabulary).into_iter().filter_map(Result::err));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Published templates that write some past calls otherwise than a model is held to, and how many of the six they are.
const OTHERWISE: &[(&str, usize)] = &[
    // They write no calls.
    ("LFM2-8B-A1B", 6),
    ("LFM2.5-Instruct", 6),
    ("HuggingFaceTB-SmolLM3-3B", 6),
    ("ibm-granite-granite-3.3-2B-Instruct", 6),
    ("google-gemma-2-2b-it", 6),
    ("microsoft-Phi-3.5-mini-instruct", 6),
    ("llama-cpp-rwkv-world", 6),
    ("deepseek-ai-DeepSeek-R1-Distill-Llama-8B", 6),
    // Nor do they take tools as they are usually given.
    ("fireworks-ai-llama-3-firefunction-v2", 6),
    ("CohereForAI-c4ai-command-r-plus-tool_use", 6),
    ("llama-cpp-deepseek-r1", 6),
    // They take or write one call at a time.
    ("meta-llama-Llama-3.1-8B-Instruct", 1),
    ("meta-llama-Llama-3.2-3B-Instruct", 1),
    ("meta-llama-Llama-3.3-70B-Instruct", 1),
    ("GigaChat3-10B-A1.8B", 1),
    ("GigaChat3.1-10B-A1.8B", 1),
    ("openai-gpt-oss-120b", 1),
    // Strings are written without escapes, and so that where they end is not told.
    ("LFM2.5-8B-A1B", 2),
];

#[test]
fn what_published_templates_write_is_taken_and_read_back() {
    let Some(folder) = std::env::var_os("ONEBIT_TEMPLATES") else {
        eprintln!("SKIPPED: ONEBIT_TEMPLATES names no folder");
        return;
    };
    let vocabularies = [Vocabulary::new(&[]), Vocabulary::new(MARKS)];
    let (mut n, mut wrong) = (0, Vec::new());
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "jinja") {
            continue;
        }
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let source = std::fs::read_to_string(&path).unwrap();
        for vocabulary in &vocabularies {
            let bad: Vec<String> = check(&name, &source, vocabulary).into_iter().filter_map(Result::err).collect();
            let expected = OTHERWISE.iter().find(|(n, _)| *n == name).map_or(0, |(_, count)| *count);
            if bad.len() != expected {
                wrong.push(format!("{name}: {} instead of {expected}\n  {}", bad.len(), bad.join("\n  ")));
            }
        }
        n += 1;
    }
    assert!(n > 0);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Changes to what each format's template writes, none of which is a call that may be made.
#[test]
fn other_names_and_arguments_are_refused() {
    let vocabulary = Vocabulary::new(&[]);
    for case in cases() {
        let (name, Some(source)) = (case["format"].as_str().unwrap(), case["template"].as_str()) else { continue };
        let template = ChatTemplate::new(source, "<s>", "</s>").unwrap();
        let output = Output::of(source);
        let arguments = json!({ "city": "Zürich", "days": 2 });
        let (prompt, text) = written(&template, &[("get_weather", &arguments)], ENDS).unwrap();
        let opening = output.opening(&prompt);
        let grammar = |functions: Vec<Function>| vocabulary.compiler.compile(&answer(calls(&output, functions), opening.clone())).unwrap();
        let own = grammar(vec![function("get_weather")]);
        assert_eq!(vocabulary.taken(&own, &text), Ok(()), "{name}: {text:?}");
        for (from, to) in [("get_weather", "get_wealth"), ("days", "dayz"), ("2", "2.5"), ("2", "two"), ("2", "")] {
            let at = text.rfind(from).unwrap();
            let changed = [&text[..at], to, &text[at + from.len()..]].concat();
            assert!(vocabulary.taken(&own, &changed).is_err(), "{name}: {changed:?}");
        }
        assert!(vocabulary.taken(&own, "").is_err() && vocabulary.taken(&own, "Hello").is_err(), "{name}");
        let other = grammar(vec![function("f")]);
        assert!(vocabulary.taken(&other, &text).is_err(), "{name}: another function");
        // Without what is required, and with a value that is none of those allowed.
        let schema = json!({ "type": "object", "properties": { "city": { "enum": ["Bern", "Basel"] }, "days": { "type": "integer" } }, "required": ["city", "days"], "additionalProperties": false });
        let chosen = grammar(vec![Function { name: "get_weather".into(), parameters: Some(schema), strict: true }]);
        assert!(vocabulary.taken(&chosen, &text).is_err(), "{name}: Zürich is none of two");
        assert_eq!(vocabulary.taken(&chosen, &text.replace("Zürich", "Bern")), Ok(()), "{name}");
        let (_, without) = written(&template, &[("get_weather", &json!({ "city": "Bern" }))], ENDS).unwrap();
        assert!(vocabulary.taken(&chosen, &without).is_err(), "{name}: days are required");
    }
}

/// What a model of random weights writes, which tends to end what it began.
fn random_answer(vocabulary: &Vocabulary, grammar: &Grammar, random: &mut Random) -> Option<String> {
    let (mut guide, mut mask) = grammar.begin();
    let mut out = Vec::new();
    for _ in 0..3000 {
        if guide.is_complete() {
            return String::from_utf8(out).ok();
        }
        let allowed: Vec<u32> = (0..257 + vocabulary.marks.len() as u32).filter(|id| mask.allows(*id)).collect();
        assert!(!allowed.is_empty(), "{:?}", String::from_utf8_lossy(&out));
        let plain: Vec<u32> = allowed.iter().copied().filter(|id| *id == END || *id > 256 || (33..=127).contains(id)).collect();
        let among = if plain.is_empty() { &allowed } else { &plain };
        let id = if mask.allows(END) && random.below(2) == 0 { END } else { among[random.below(among.len())] };
        if id == END {
            return String::from_utf8(out).ok();
        }
        out.extend(vocabulary.text(id));
        guide.accept(id).unwrap();
        mask = guide.mask().unwrap();
    }
    None
}

#[test]
fn what_random_weights_write_are_calls_of_the_schema() {
    let mut random = Random(random::seed());
    let schema = json!({ "type": "object", "properties": {
        "city": { "type": "string", "minLength": 1, "maxLength": 5 }, "days": { "type": "integer", "minimum": 3, "maximum": 9 },
        "unit": { "enum": ["C", "F"] }, "n": { "type": ["integer", "null"], "minimum": 0, "maximum": 99 },
        "l": { "type": "array", "items": { "type": "boolean" }, "minItems": 1, "maxItems": 2 },
    }, "required": ["city", "days", "unit", "l"], "additionalProperties": false });
    let is_valid = |arguments: &Value| {
        let Some(map) = arguments.as_object() else { return false };
        map.keys().all(|key| ["city", "days", "unit", "n", "l"].contains(&key.as_str()))
            && map.get("city").and_then(Value::as_str).is_some_and(|city| (1..=5).contains(&city.chars().count()))
            && map.get("days").and_then(Value::as_i64).is_some_and(|days| (3..=9).contains(&days))
            && map.get("unit").is_some_and(|unit| unit == "C" || unit == "F")
            && map.get("n").is_none_or(|n| n.is_null() || n.as_i64().is_some_and(|n| (0..=99).contains(&n)))
            && map.get("l").and_then(Value::as_array).is_some_and(|l| (1..=2).contains(&l.len()) && l.iter().all(Value::is_boolean))
    };
    for marks in [&[][..], MARKS] {
        let vocabulary = Vocabulary::new(marks);
        for case in cases() {
            let (name, Some(source)) = (case["format"].as_str().unwrap(), case["template"].as_str()) else { continue };
            let output = Output::of(source);
            let functions = ["f", "g"].map(|name| Function { name: name.into(), parameters: Some(schema.clone()), strict: true });
            let tools = json!(functions.iter().map(|f| json!({ "name": f.name, "parameters": schema })).collect::<Vec<_>>());
            let prompt = if name == "functionary-v3.2" { ">>>" } else { "" };
            for single in [true, false] {
                let calls = Calls { single, ..calls(&output, functions.to_vec()) };
                let opening = Opening { pairs: vec![], ..output.opening(prompt) };
                let grammar = vocabulary.compiler.compile(&answer(calls, opening)).unwrap();
                let mut ended = 0;
                for _ in 0..6 {
                    let Some(text) = random_answer(&vocabulary, &grammar, &mut random) else { continue };
                    ended += 1;
                    let mut parser = output.parser(prompt, Some(&tools), true);
                    let mut events = parser.push(&text);
                    events.extend(parser.finish());
                    let mut found = Vec::<(String, String)>::new();
                    for event in events {
                        match event {
                            Event::ToolCallStart { name, .. } => found.push((name, String::new())),
                            Event::ToolArguments(text) => found.last_mut().unwrap().1.push_str(&text),
                            Event::ToolCallEnd => {}
                            other => panic!("{name}: {text:?} holds {other:?}"),
                        }
                    }
                    assert!(!found.is_empty() && (!single || found.len() == 1), "{name}: {text:?} is read as {found:?}");
                    for (function, arguments) in found {
                        assert!(["f", "g"].contains(&function.as_str()), "{name}: {text:?}");
                        let arguments: Value = serde_json::from_str(&arguments).unwrap();
                        assert!(is_valid(&arguments), "{name}: {text:?} is read as {arguments}");
                    }
                }
                assert!(ended > 0, "{name}: no answer ended");
            }
        }
    }
}

/// Where no call is required: a text, calls, or a text and then calls; and with a form, that or calls.
#[test]
fn texts_and_forms_beside_calls() {
    for (marks, vocabulary) in
        [(false, Vocabulary::new(&[])), (true, Vocabulary::new(&["<tool_call>", "</tool_call>", "<think>", "</think>"]))]
    {
        let output = Output::of("<tool_call></think>");
        let strict = |single| Calls { required: false, single, ..calls(&output, vec![function("f")]) };
        let both = Answer { source: None, calls: Some(strict(false)), opening: output.opening("") };
        let grammar = vocabulary.compiler.compile(&both).unwrap();
        let call = "<tool_call>{\"name\": \"f\", \"arguments\": {\"days\": 1}}</tool_call>";
        for text in [
            "Hello",
            call,
            &format!("I look.\n{call}"),
            &format!("<think>Hm.</think>\n\n{call}\n{call}"),
            &format!("<think>Hm.</think>I look <tool. {call}"),
            "",
        ] {
            assert_eq!(vocabulary.taken(&grammar, text), if text.is_empty() { Err(0) } else { Ok(()) }, "{marks} {text:?}");
        }
        for text in ["<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>", "Hi <tool_call>no call", &format!("{call} and more")] {
            assert!(vocabulary.taken(&grammar, text).is_err(), "{marks} {text:?}");
        }
        let one = vocabulary.compiler.compile(&Answer { calls: Some(strict(true)), ..both.clone() }).unwrap();
        assert_eq!(vocabulary.taken(&one, &format!("I look.{call}")), Ok(()));
        assert!(vocabulary.taken(&one, &format!("{call}{call}")).is_err());
        let form = Answer { source: Some(Source::Regex("[0-9]+".into())), calls: Some(strict(false)), opening: output.opening("") };
        let form = vocabulary.compiler.compile(&form).unwrap();
        assert_eq!((vocabulary.taken(&form, "42"), vocabulary.taken(&form, call)), (Ok(()), Ok(())));
        assert!(vocabulary.taken(&form, "x").is_err() && vocabulary.taken(&form, &format!("42{call}")).is_err());
    }
}

#[test]
fn what_cannot_be_enforced_is_refused_where_it_must_be() {
    let vocabulary = Vocabulary::new(&[]);
    let compile = |marks: &str, function: Function| -> Result<Grammar, GrammarError> {
        vocabulary.compiler.compile(&answer(calls(&Output::of(marks), vec![function]), Opening::default()))
    };
    let property = |part: Value, strict| Function {
        name: "f".into(),
        parameters: Some(json!({ "type": "object", "properties": { "a": part }, "required": ["a"], "additionalProperties": false })),
        strict,
    };
    for marks in ["<tool_call>", "<function= <parameter=", "func_name1(", "<|tool_call><tool_call|>", "]<]minimax[>["] {
        for (part, word) in [
            (json!({ "type": "string", "format": "no-such" }), "format"),
            (json!({ "type": "array", "uniqueItems": true }), "uniqueItems"),
            (json!({ "not": { "type": "string" } }), "not"),
            (json!({ "allOf": [{ "type": "string" }, { "not": {} }] }), ""),
        ] {
            let error = compile(marks, property(part.clone(), true)).unwrap_err().to_string();
            assert!(error.contains(word), "{marks} {part}: {error}");
            compile(marks, property(part.clone(), false)).unwrap_or_else(|e| panic!("{marks} {part}: {e}"));
        }
        // A schema that refers to itself.
        let tree = json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/t" } }, "required": ["a"], "additionalProperties": false,
            "$defs": { "t": { "type": "object", "properties": { "next": { "anyOf": [{ "$ref": "#/$defs/t" }, { "type": "null" }] } }, "required": ["next"], "additionalProperties": false } } });
        compile(marks, Function { name: "f".into(), parameters: Some(tree), strict: true }).unwrap_or_else(|e| panic!("{marks}: {e}"));
        for bad in [
            Function { name: "a b".into(), parameters: None, strict: false },
            Function { name: "f".into(), parameters: Some(json!({ "type": "array" })), strict: false },
        ] {
            compile(marks, bad).unwrap_err();
        }
    }
}

/// After so many tokens what is thought has to be closed; what follows is free, or held to a form.
#[test]
fn reasoning_within_its_bound() {
    let output = Output::of("</think>");
    let answer = |budget, prompt: &str, source: Option<&str>| {
        let opening = Opening { budget: Some(budget), ..output.opening(prompt) };
        Answer { source: source.map(|regex| Source::Regex(regex.into())), calls: None, opening }
    };
    // The marks are structure to some vocabularies, and texts to others.
    for is_special in [true, false] {
        let vocabulary = Vocabulary::with(&["<think>", "</think>"], is_special);
        let bounded = |budget, prompt, source| vocabulary.compiler.compile(&answer(budget, prompt, source)).unwrap();
        let open = bounded(4, "<think>", None);
        for text in ["abcd", "ab", "", "<ab>"] {
            assert_eq!(vocabulary.taken(&open, &format!("{text}</think>\n\nYes, <b>.")), Ok(()), "{text}");
        }
        assert_eq!(vocabulary.taken(&open, "abcde</think>x"), Err(4));
        let own = bounded(2, "", None);
        for text in ["<think>ab</think>Hello", "Hello", ""] {
            assert_eq!(vocabulary.taken(&own, text), Ok(()), "{text}");
        }
        assert_eq!(vocabulary.taken(&bounded(0, "<think>", None), "</think>Yes"), Ok(()));
        assert_eq!(vocabulary.taken(&bounded(0, "<think>", None), "a</think>Yes"), Err(0));
        let form = bounded(3, "<think>", Some("[0-9]+"));
        assert_eq!(vocabulary.taken(&form, "abc</think>42"), Ok(()));
        assert!(vocabulary.taken(&form, "abc</think>x").is_err());
    }
    let error = Vocabulary::new(&[]).compiler.compile(&answer(3, "<think>", None)).unwrap_err();
    assert!(error.to_string().contains("</think>"), "{error}");
}
