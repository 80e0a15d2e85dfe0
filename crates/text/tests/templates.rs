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
    let messages = serde_json::json!([{"role": "user", "content": "x"}]);
    let checked = std::thread::Builder::new().stack_size(1 << 20).spawn(move || {
        for chain in chains {
            for n in [30, 100, 250, 500, 1000, 20_000] {
                let (source, start) = (chain(n), Instant::now());
                let built = ChatTemplate::new(&source, "", "");
                assert!(built.is_ok() || n > 30, "{n}: {built:?}");
                assert!(matches!(built, Ok(_) | Err(Error::Template(_))), "{n}: {source:.60}");
                let rendered = built.and_then(|template| template.render(&messages, &Render::default()));
                assert!(rendered.is_ok() || n > 30 || source.contains('x'), "{n}: {rendered:?}");
                assert!(start.elapsed() < Duration::from_secs(3), "{n}: {source:.60}: {:?}", start.elapsed());
            }
        }
    });
    checked.unwrap().join().unwrap();
}

/// Values that hold themselves, and calls within calls, as deep as they may be, on a small stack.
#[test]
fn depth_is_bounded() {
    let checked = std::thread::Builder::new().stack_size(1 << 20).spawn(|| {
        let messages = serde_json::json!([{"role": "user", "content": "x"}]);
        let selves = ["{% set a = [] %}{% set _ = a.append(a) %}", "{% set a = namespace() %}{% set a.a = a %}{% set a = [a] %}"];
        let deep = "{% set ns = namespace(a=[]) %}{% for i in range(300) %}{% set ns.a = [ns.a] %}{% endfor %}{% set a = ns.a %}";
        for begin in selves.into_iter().chain([deep]) {
            for used in ["{{ a }}", "{{ a | tojson }}", "{{ a | string }}", "{{ [[a]] ~ 'x' }}", "{{ '%s' % [a] }}"] {
                let error = render(&format!("{begin}{used}"), &messages, &Render::default()).expect_err(used).to_string();
                assert!(error.contains("200 levels") || error.contains("not JSON"), "{begin}{used}: {error}");
            }
            assert_eq!(render(&format!("{begin}{{{{ a == a }}}}"), &messages, &Render::default()).unwrap(), "True");
        }
        let two = "{% set a = [] %}{% set b = [] %}{% set _ = a.append(b) %}{% set _ = b.append(a) %}{{ a == b }}{{ a < b }}";
        assert!(render(two, &messages, &Render::default()).is_err());
        let calls = [
            "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
            "{% macro f(n) %}{% if true %}{% for i in [n] %}{% set x = [1, {'a': f(i)}] %}{% endfor %}{% endif %}{% endmacro %}{{ f(0) }}",
            "{% macro f() %}{% call g() %}x{% endcall %}{% endmacro %}{% macro g() %}{{ f() ~ caller() }}{% endmacro %}{{ f() }}",
            "{% for i in [[]] recursive %}{{ loop([[]]) }}{% endfor %}",
            "{% macro f() %}{{ (((((1 + (f() | string | upper | trim | int(default=f()))))))) if not not not false }}{% endmacro %}{{ f() }}",
        ];
        for source in calls {
            let error = render(source, &messages, &Render::default()).expect_err(source).to_string();
            assert!(error.contains("recursion depth"), "{source}: {error}");
        }
    });
    checked.unwrap().join().unwrap();
}

/// Each of these would make more than any machine holds, or take for ever; fuel ends them soon.
#[test]
fn growth_is_bounded() {
    let messages = serde_json::json!([{"role": "user", "content": "x"}]);
    let doubled = |begin: &str, step: &str, end: &str| format!("{begin}{}{end}", step.repeat(60));
    let macros: String = (0..40).map(|i| format!("{{% macro f{i}(a) %}}{{{{ f{}(a + a) }}}}{{% endmacro %}}", i + 1)).collect();
    let macros = macros + "{% macro f40(a) %}{{ a | length }}{% endmacro %}{{ f0([1]) }}";
    let big = "{% set s = 'x,' * 4000000 %}";
    let variables: String = (0..20_000).map(|i| format!("{{% set v{i} = 1 %}}")).collect();
    let chains: Vec<String> = [
        doubled("{% set a = [1] %}", "{% set a = a + a %}", "{{ a }}"),
        doubled("{% set a = [1] %}", "{% set a = [a, a] %}", "{{ a }}"),
        doubled("{% set a = [1] %}{% set b = [1] %}", "{% set a = [a, a] %}{% set b = [b, b] %}", "{{ a == b }}"),
        doubled("{% set a = [1] %}{% set b = [1] %}", "{% set a = [a, a] %}{% set b = [b, b] %}", "{{ a < b }}"),
        doubled("{% set a = {} %}", "{% set a = {'a': a, 'b': a} %}", "{{ a | tojson }}"),
        doubled("{% set a = 'x' %}", "{% set a = a ~ a %}", "{{ a }}"),
        doubled("{% set a = 'x' %}", "{% set a = a + a %}", "{{ a }}"),
        doubled("{% set a = 'xy' %}", "{% set a = a.replace('x', a) %}", "{{ a }}"),
        doubled("{% set a = ['x'] %}", "{% set a = [a | join, a | join] %}", "{{ a }}"),
        doubled("{% set a = ['x'] %}", "{% set _ = a.extend(a) %}", "{{ a }}"),
        doubled("{% set a = 'x' %}", "{% set a = '{0}{0}'.format(a) %}", "{{ a }}"),
        doubled("{% set a = 'x' %}", "{% set a = '%s%s' % (a, a) %}", "{{ a }}"),
        doubled("{% set a = 'x' %}", "{% set a %}{{ a }}{{ a }}{% endset %}", "{{ a }}"),
        macros,
        format!("{big}{{% for i in range(1000) %}}{{% set x = s.split(',') %}}{{% endfor %}}"),
        format!("{big}{{% for i in range(1000) %}}{{% set x = s | list %}}{{% endfor %}}"),
        format!("{big}{{% for i in range(9999) %}}{{% set x = s.find('y') %}}{{% endfor %}}"),
        format!("{big}{{% set d = {{s: 1}} %}}{{% for i in range(99999) %}}{{% set x = d[s] %}}{{% endfor %}}"),
        format!("{big}{{{{ range(99999) | list | tojson(indent=s) }}}}"),
        format!("{big}{{{{ range(99999) | list | tojson(separators=(s, s)) }}}}"),
        format!("{big}{{{{ range(99999) | join(s) }}}}"),
        format!("{variables}{{% for i in range(99999) %}}{{% for j in range(99999) %}}{{{{ v0 }}}}{{% endfor %}}{{% endfor %}}"),
        "{% for i in range(99999) %}{{ range(99999) | select('in', range(99999)) | list }}{% endfor %}".into(),
        "{% for i in range(99999) %}{{ range(99999) | sort(reverse=true) }}{{ range(99999) | unique | list }}{% endfor %}".into(),
        "{% for i in range(99999) %}{% for j in range(99999) %}{% for k in [] %}{% endfor %}{% endfor %}{% endfor %}".into(),
    ]
    .into();
    for source in chains {
        let start = Instant::now();
        let error = render(&source, &messages, &Render::default()).expect_err(source.get(..80).unwrap_or("?"));
        assert!(matches!(&error, Error::Template(text) if text.contains("more work than is allowed")), "{source:.100}: {error}");
        assert!(start.elapsed() < Duration::from_secs(20), "{source:.100}: {:?}", start.elapsed());
        eprintln!("{:?} {source:.100}", start.elapsed());
    }
}

/// Lists and dictionaries change as Python's do, which Jinja2's sandbox in `transformers` refuses. From Python's own.
#[test]
fn lists_and_dictionaries_change() {
    let messages = serde_json::json!([{"role": "user", "content": "x"}]);
    for (source, want) in [
        ("{% set a = [1] %}{% set b = a %}{% set _ = a.append(2) %}{{ b }}{{ _ }}", "[1, 2]None"),
        (
            "{% set a = [3, 1] %}{% set _ = a.extend((2,)) %}{% set _ = a.insert(-1, 9) %}{{ a }}{{ a.pop() }}{{ a.pop(0) }}{{ a }}",
            "[3, 1, 9, 2]23[1, 9]",
        ),
        (
            "{% set a = [3, 1, 2] %}{% set _ = a.sort() %}{{ a }}{% set _ = a.reverse() %}{% set _ = a.remove(2) %}{{ a }}",
            "[1, 2, 3][3, 1]",
        ),
        (
            "{% set d = {'a': 1} %}{% set _ = d.update({'b': 2}, c=3) %}{{ d }}{{ d.pop('a') }}{{ d.pop('z', 0) }}{{ d.setdefault('y', []) }}{{ d }}",
            "{'a': 1, 'b': 2, 'c': 3}10[]{'b': 2, 'c': 3, 'y': []}",
        ),
    ] {
        assert_eq!(render(source, &messages, &Render::default()).unwrap(), want);
    }
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
