//! Chat templates against what transformers makes of them (`tests/data/make_templates.py`), and against hostile ones.
#![allow(clippy::unwrap_used)]

mod common;

use common::{data, json};
use onebit_text::{ChatTemplate, Error, Render};
use serde_json::Value;
use std::time::{Duration, Instant, SystemTime};

fn render(source: &str, messages: &Value, options: &Render) -> Result<String, Error> {
    ChatTemplate::new(source, "<s>", "</s>")?.render(messages, options)
}

/// What `minijinja` does not have: refused, not rendered otherwise.
const REFUSED: [&str; 1] = ["{{ '%s-%d' % ('a', 3) }}"];

#[test]
fn same_as_the_reference() {
    let file = json(&data("templates.json"));
    let (mut wrong, mut n) = (Vec::new(), 0);
    for case in file["cases"].as_array().unwrap() {
        let source = case["source"].as_str().unwrap();
        let messages = case.get("messages").unwrap_or(&file["messages"]);
        let mut options = Render { tools: Some(file["tools"].clone()), add_generation_prompt: true, ..Render::default() };
        for (name, value) in case.get("extra").and_then(Value::as_object).into_iter().flatten() {
            match name.as_str() {
                "add_generation_prompt" => options.add_generation_prompt = value.as_bool().unwrap(),
                "continue_final_message" => options.continue_final_message = value.as_bool().unwrap(),
                _ => drop(options.extra.insert(name.clone(), value.clone())),
            }
        }
        n += 1;
        match (render(source, messages, &options), case.get("text")) {
            (Ok(got), Some(want)) if got == want.as_str().unwrap() => {}
            (Err(Error::Messages(_) | Error::Template(_)), None) => {}
            (Err(_), Some(_)) if REFUSED.contains(&source) => {}
            (got, _) => wrong.push(format!("{source}\n   want {}\n   got  {got:?}", case.get("text").unwrap_or(&case["error"]))),
        }
    }
    assert!(n > 250);
    assert!(wrong.is_empty(), "{} of {n} differ:\n{}", wrong.len(), wrong.join("\n"));
}

const FOREVER: &str =
    "{% macro again(n) %}{% for i in range(100000) %}{% set x = i %}{% endfor %}{{ again(n + 1) }}{% endmacro %}{{ again(0) }}";

/// Each ends soon, by a limit that the message names.
#[test]
fn hostile_templates_end() {
    let messages = serde_json::json!([{"role": "user", "content": "x"}]);
    let start = Instant::now();
    for (source, names) in [
        (FOREVER, "more work than is allowed"),
        (
            "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}x{% endfor %}{% endfor %}{% endfor %}",
            "more work than is allowed",
        ),
        (
            "{% set ns = namespace(x='xxxxxxxx') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
            "more work than is allowed",
        ),
        (
            "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
            "more work than is allowed",
        ),
        (
            "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x | tojson }}",
            "more work than is allowed",
        ),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion"),
        ("{{ range(10 ** 18) | list }}", ""),
        ("{{ 'x' * 10 ** 12 }}", ""),
        ("{{ [1] * 10 ** 12 }}", ""),
        ("{{ '%999999999999d' | format(1) }}", ""),
        ("{{ 'x'.ljust(10 ** 12) }}", ""),
        ("{{ 'x' | indent(10 ** 12) }}", ""),
        ("{{ messages | tojson(indent=10 ** 12) }}{{ raise_exception('end') }}", "end"),
        ("{{ strftime_now('%Q') }}", "`%Q`"),
        ("{% include 'default' %}", ""),
        ("{% include '/etc/passwd' %}", "not"),
        ("{% extends 'default' %}", ""),
        ("{% import 'other' as o %}", ""),
        ("{{ messages.__class__.__mro__ }}", ""),
        ("{{ ''.__class__.__base__.__subclasses__() }}", ""),
        ("{{ raise_exception('on purpose') }}", "on purpose"),
    ] {
        let one = Instant::now();
        let error = render(source, &messages, &Render::default()).expect_err(source).to_string();
        assert!(one.elapsed() < Duration::from_secs(30), "{source}: {:?}", one.elapsed());
        eprintln!("{source}: {:?}", one.elapsed());
        assert!(error.contains(names), "{source}: {error}");
        assert!(error.len() < 2000, "{source}: {error}");
    }
    let nested = format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000));
    assert!(matches!(ChatTemplate::new(&format!("{{{{ {nested} }}}}"), "", ""), Err(Error::Template(_))));
    eprintln!("{:?}", start.elapsed());
    let blocks = "{% if true %}".repeat(100_000);
    assert!(matches!(ChatTemplate::new(&blocks, "", ""), Err(Error::Template(_))));
    eprintln!("{:?}", start.elapsed());
}

/// What nests without brackets: parsed, compiled and dropped on a small stack, or refused.
#[test]
fn chains_end_on_a_small_stack() {
    let chains: [fn(usize) -> String; 9] = [
        |n| format!("{{{{ {}1 }}}}", "not ".repeat(n)),
        |n| format!("{{{{ {}1 }}}}", "- ".repeat(n)),
        |n| format!("{{{{ 1{} }}}}", "+x".repeat(n)),
        |n| format!("{{{{ 'a'{} }}}}", "~'%}'".repeat(n)),
        |n| format!("{{{{ x{} }}}}", "|int".repeat(n)),
        |n| format!("{{{{ x{} }}}}", ".x".repeat(n)),
        |n| format!("{{{{ x{} }}}}", "()".repeat(n)),
        |n| format!("{{{{ {}1 }}}}", "1 if x else ".repeat(n)),
        |n| format!("{{% if x %}}{}{{% endif %}}", "{% elif x %}".repeat(n)),
    ];
    let checked = std::thread::Builder::new().stack_size(1 << 20).spawn(move || {
        for chain in chains {
            for n in [30, 100, 250, 500, 1000, 20_000] {
                let (source, start) = (chain(n), Instant::now());
                let built = ChatTemplate::new(&source, "", "");
                assert!(built.is_ok() || n > 30, "{n}: {built:?}");
                assert!(matches!(built, Ok(_) | Err(Error::Template(_))) && (built.is_err() || n < 600), "{n}: {source:.60}");
                assert!(start.elapsed() < Duration::from_secs(3), "{n}: {source:.60}: {:?}", start.elapsed());
            }
        }
    });
    checked.unwrap().join().unwrap();
}

/// Namespaces that would hold themselves, and values that grow in depth: refused where they are stored, before they take the stack.
#[test]
fn nothing_holds_itself() {
    let messages = serde_json::json!([{"role": "user", "content": "x"}]);
    let begin = "{% set ns = namespace(a=[], b='') %}";
    for stored in ["ns", "ns, 1", "[ns]", "{'k': [1, ns]}", "namespace()", "ns if true else 1", "[1] + [ns]", "'' | default(ns, true)"] {
        let text = render(&format!("{begin}{{% set ns.a = {stored} %}}{{{{ ns.a }}}}"), &messages, &Render::default());
        assert!(
            matches!(&text, Err(Error::Template(e)) if e.contains("a namespace within a namespace cannot be stored")),
            "{stored}: {text:?}"
        );
    }
    for stored in ["{% set ns.a, x = ns, 1 %}", "{% set ns.a | default(ns, true) %}{% endset %}"] {
        assert!(render(&format!("{begin}{stored}{{{{ ns.a }}}}"), &messages, &Render::default()).is_err(), "{stored}");
    }
    let deep = format!("{begin}{{% for i in range(100000) %}}{{% set ns.a = [ns.a] %}}{{% endfor %}}{{{{ ns.a == [ns.a] }}}}");
    assert!(matches!(render(&deep, &messages, &Render::default()), Err(Error::Template(e)) if e.contains("levels")));
    let doubled = format!("{begin}{{% set ns.a = [1] %}}{{% for i in range(60) %}}{{% set ns.a = ns.a + ns.a %}}{{% endfor %}}x");
    assert!(matches!(render(&doubled, &messages, &Render::default()), Err(Error::Template(e)) if e.contains("more work than is allowed")));
    let doubling = "{% set a = [1] %}".to_owned() + &"{% set a = a + a %}".repeat(60);
    let within = "{% set a = [1] %}".to_owned() + &"{% with a = a + a, b = 1 %}".repeat(60) + "{{ a }}" + &"{% endwith %}".repeat(60);
    for source in [doubling.clone() + "{{ a }}", doubling + "{{ a == a }}", within] {
        assert!(
            matches!(render(&source, &messages, &Render::default()), Err(Error::Template(e)) if e.contains("more work than is allowed"))
        );
    }
    let deep = "{% set a = [] %}".to_owned() + &"{% set a=[a] %}".repeat(30_000) + "{{ a }}";
    assert!(matches!(render(&deep, &messages, &Render::default()), Err(Error::Template(e)) if e.contains("levels")));
    let usual = format!(
        "{begin}{{% for m in messages %}}{{% set ns.a = ns.a + [m, {{'n': loop.index}}] %}}{{% set ns.b = ns.b ~ 'y' %}}{{% endfor %}}"
    );
    assert_eq!(render(&(usual + "{{ ns.a | length }}{{ ns.b }}{{ ns.a[1].n }}"), &messages, &Render::default()).unwrap(), "2y1");
}

/// Where the template engine itself panics, the rendering fails, and the next one works.
#[test]
fn the_engine_fails() {
    let messages = serde_json::json!([{"role": "user", "content": "x"}]);
    let text = render("{% for m in messages %}{{ loop.cycle() }}{% endfor %}", &messages, &Render::default());
    assert!(matches!(&text, Err(Error::Template(e)) if e.contains("engine")), "{text:?}");
    assert_eq!(render("{{ messages[0].content }}", &messages, &Render::default()).unwrap(), "x");
}

#[test]
fn whose_fault() {
    let messages = serde_json::json!([{"role": "user", "content": "x"}]);
    let of = |source: &str| render(source, &messages, &Render::default()).unwrap_err();
    assert!(matches!(of("{{ raise_exception('bad') }}"), Error::Messages(text) if text == "bad"));
    assert!(matches!(of("{{ messages[0].content.x.y }}"), Error::Messages(_)));
    assert!(matches!(of("{{ 'a' | nofilter }}"), Error::Template(_)));
    assert!(matches!(of("{% if %}"), Error::Template(_)));
    assert!(matches!(of(FOREVER), Error::Template(_)));
    assert!(matches!(render("x", &serde_json::json!([]), &Render::default()), Err(Error::Messages(_))));
    let both = Render { add_generation_prompt: true, continue_final_message: true, ..Render::default() };
    assert!(matches!(render("{{ messages[0].content }}", &messages, &both), Err(Error::Messages(_))));
}

#[test]
fn the_time_is_what_is_given() {
    let messages = serde_json::json!([{"role": "user", "content": "x"}]);
    let options = Render { now: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(951_782_400)), ..Render::default() };
    assert_eq!(render("{{ strftime_now('%d %b %Y') }}", &messages, &options).unwrap(), "29 Feb 2000");
    let defined = "{% if strftime_now is defined %}{{ strftime_now('%Y') | int > 2025 }}{% endif %}";
    assert_eq!(render(defined, &messages, &Render::default()).unwrap(), "True");
}

/// What a caller gives comes before what the vocabulary says.
#[test]
fn extra_variables() {
    let messages = serde_json::json!([{"role": "user", "content": "x"}]);
    let extra = serde_json::json!({"bos_token": "B", "enable_thinking": false}).as_object().unwrap().clone();
    let options = Render { extra, ..Render::default() };
    assert_eq!(render("{{ bos_token }}{{ eos_token }}{{ enable_thinking }}{{ tools }}", &messages, &options).unwrap(), "B</s>FalseNone");
}
