//! `/v1/responses`.

use crate::client::{Reply, TestServer, options};
use crate::toy::Toy;
use serde_json::{Value, json};

const RESPONSES: &str = "/v1/responses";
const SCRIPT: &str = "<think>Hm.</think>\n\nI look.\n<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>";

fn scripted(script: &'static str) -> TestServer {
    TestServer::with(options(), Toy { script: Some(script), context: 1024, ..Toy::default() })
}

fn body(more: Value) -> Value {
    let mut body = json!({ "model": "toy", "input": "hi", "temperature": 0 });
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    body
}

fn function(more: Value) -> Value {
    let mut tool = json!({ "type": "function", "name": "f", "parameters": { "type": "object", "properties": { "a": { "type": "integer" } }, "required": ["a"], "additionalProperties": false } });
    tool.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    tool
}

/// The events, each under the name that its data has too, numbered in order.
fn events(reply: &Reply) -> Vec<Value> {
    assert_eq!(reply.status, 200, "{}", reply.text());
    let read = |(i, event): (usize, &str)| {
        let (name, data) = event.split_once('\n').expect("two lines");
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").expect("data")).expect("JSON");
        assert_eq!((name.strip_prefix("event: "), data["sequence_number"].as_u64()), (data["type"].as_str(), Some(i as u64)));
        data
    };
    reply.text().split_terminator("\n\n").enumerate().map(read).collect()
}

#[test]
fn a_text() {
    let server = TestServer::start();
    let reply = server.post(RESPONSES, &body(json!({ "max_output_tokens": 3, "instructions": "Be brief." }))).ok();
    assert_eq!((&reply["object"], &reply["status"], &reply["store"]), (&json!("response"), &json!("incomplete"), &json!(false)));
    assert_eq!(reply["incomplete_details"], json!({ "reason": "max_output_tokens" }));
    let [message] = &reply["output"].as_array().expect("items")[..] else { panic!("{reply}") };
    assert_eq!((&message["type"], &message["role"], &message["status"]), (&json!("message"), &json!("assistant"), &json!("incomplete")));
    assert_eq!(message["content"], json!([{ "type": "output_text", "text": "abc", "annotations": [], "logprobs": [] }]));
    assert_eq!((&reply["instructions"], &reply["max_output_tokens"], &reply["temperature"]), (&json!("Be brief."), &json!(3), &json!(0)));
    let usage = &reply["usage"];
    assert_eq!((&usage["output_tokens"], &usage["output_tokens_details"]["reasoning_tokens"]), (&json!(3), &json!(0)));
    assert_eq!(usage["total_tokens"].as_u64(), usage["input_tokens"].as_u64().map(|n| n + 3));
    // What was sent as a string is the user's message.
    let items = server.post(RESPONSES, &body(json!({ "input": [{ "role": "user", "content": [{ "type": "input_text", "text": "hi" }] }], "max_output_tokens": 3, "instructions": "Be brief." }))).ok();
    assert_eq!(items["usage"]["input_tokens"], usage["input_tokens"]);
}

#[test]
fn thoughts_texts_and_calls_are_items() {
    let server = scripted(SCRIPT);
    let reply = server.post(RESPONSES, &body(json!({ "tools": [function(json!({}))] }))).ok();
    assert_eq!((&reply["status"], &reply["incomplete_details"], &reply["error"]), (&json!("completed"), &Value::Null, &Value::Null));
    let [thought, message, call] = &reply["output"].as_array().expect("items")[..] else { panic!("{reply}") };
    assert_eq!((&thought["type"], &thought["summary"]), (&json!("reasoning"), &json!([])));
    assert_eq!(thought["content"], json!([{ "type": "reasoning_text", "text": "Hm." }]));
    assert_eq!(message["content"][0]["text"], "I look.");
    assert_eq!(
        (&call["type"], &call["name"], &call["arguments"], &call["status"]),
        (&json!("function_call"), &json!("f"), &json!("{\"a\":1}"), &json!("completed"))
    );
    assert!(
        call["call_id"].as_str().is_some_and(|id| id.starts_with("call_")) && call["id"].as_str().is_some_and(|id| id.starts_with("fc_"))
    );
    let thought_tokens = reply["usage"]["output_tokens_details"]["reasoning_tokens"].as_u64().expect("a count");
    assert!((3..=20).contains(&thought_tokens), "{thought_tokens}");
    // All of it goes back, with what the call gave.
    let mut input = vec![json!({ "role": "user", "content": "hi" })];
    input.extend(reply["output"].as_array().expect("items").iter().cloned());
    input.push(json!({ "type": "function_call_output", "call_id": call["call_id"], "output": "r" }));
    let next = server.post(RESPONSES, &body(json!({ "input": input, "tools": [function(json!({}))] }))).ok();
    assert_eq!(next["status"], "completed");
    assert!(next["usage"]["input_tokens"].as_u64() > reply["usage"]["input_tokens"].as_u64());
}

#[test]
fn events_come_in_order_and_add_up() {
    let server = scripted(SCRIPT);
    let request = body(json!({ "tools": [function(json!({}))] }));
    let whole = server.post(RESPONSES, &request).ok();
    let mut streaming = request;
    streaming["stream"] = true.into();
    let events = events(&server.post(RESPONSES, &streaming));
    let mut kinds: Vec<&str> = events.iter().map(|e| e["type"].as_str().expect("a type")).collect();
    kinds.dedup();
    assert_eq!(
        kinds,
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.reasoning_text.delta",
            "response.reasoning_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let joined = |kind: &str| events.iter().filter(|e| e["type"] == kind).map(|e| e["delta"].as_str().expect("text")).collect::<String>();
    assert_eq!(joined("response.reasoning_text.delta"), "Hm.");
    assert_eq!(joined("response.output_text.delta"), "I look.");
    assert_eq!(serde_json::from_str::<Value>(&joined("response.function_call_arguments.delta")).expect("JSON"), json!({ "a": 1 }));
    assert_eq!((&events[0]["response"]["status"], &events[0]["response"]["output"]), (&json!("in_progress"), &json!([])));
    // The last event has it all, and the items that were told one by one.
    let last = &events.last().expect("events")["response"];
    assert_eq!((&last["status"], &last["usage"]["output_tokens"]), (&json!("completed"), &whole["usage"]["output_tokens"]));
    let done: Vec<&Value> = events.iter().filter(|e| e["type"] == "response.output_item.done").map(|e| &e["item"]).collect();
    assert_eq!(done, last["output"].as_array().expect("items").iter().collect::<Vec<_>>());
    for (i, item) in done.iter().enumerate() {
        let own = events.iter().filter(|e| e["output_index"] == i && e.get("item_id").is_some());
        assert!(own.clone().count() > 1 && own.clone().all(|e| e["item_id"] == item["id"]), "{item}");
        assert_eq!(item["type"], whole["output"][i]["type"]);
    }
}

#[test]
fn forms_forced_calls_and_logprobs() {
    let server = scripted("<think>Hm.</think>\"no\" it is");
    let format = json!({ "type": "json_schema", "name": "n", "strict": true, "schema": { "enum": ["yes", "no"] } });
    let reply = server.post(RESPONSES, &body(json!({ "text": { "format": format } }))).ok();
    assert_eq!((&reply["output"][0]["type"], &reply["output"][1]["content"][0]["text"]), (&json!("reasoning"), &json!("\"no\"")));
    assert_eq!(reply["text"]["format"], format);
    for choice in [json!("required"), json!({ "type": "function", "name": "f" })] {
        let reply = server
            .post(
                RESPONSES,
                &body(json!({ "tools": [function(json!({ "strict": true }))], "tool_choice": choice, "parallel_tool_calls": false })),
            )
            .ok();
        let [_, call] = &reply["output"].as_array().expect("items")[..] else { panic!("{reply}") };
        assert_eq!((&call["type"], &call["name"]), (&json!("function_call"), &json!("f")));
        let arguments: Value = serde_json::from_str(call["arguments"].as_str().expect("text")).expect("JSON");
        assert!(arguments["a"].is_number());
    }
    let reply = TestServer::start()
        .post(RESPONSES, &body(json!({ "max_output_tokens": 2, "include": ["message.output_text.logprobs"], "top_logprobs": 2 })))
        .ok();
    let logprobs = reply["output"][0]["content"][0]["logprobs"].as_array().expect("logprobs").clone();
    assert_eq!(logprobs.iter().map(|l| l["token"].as_str().expect("text")).collect::<String>(), "ab");
    assert!(logprobs.iter().all(|l| l["top_logprobs"].as_array().map(Vec::len) == Some(2)));
}

#[test]
fn refusals_name_the_field() {
    let server = scripted("x");
    for (more, param) in [
        (json!({ "store": true }), "store"),
        (json!({ "previous_response_id": "resp_1" }), "previous_response_id"),
        (json!({ "input": null }), "input"),
        (json!({ "input": [] }), "input"),
        (json!({ "max_output_tokens": 0 }), "max_output_tokens"),
        (json!({ "temperature": 101 }), "temperature"),
        (
            json!({ "text": { "format": { "type": "json_schema", "name": "n", "strict": true, "schema": { "not": {} } } } }),
            "text.format.schema",
        ),
        (json!({ "text": { "format": { "type": "xml" } } }), "text.format.type"),
        (json!({ "text": { "verbosity": "low" } }), "text.verbosity"),
        (json!({ "tools": [{ "type": "web_search" }] }), "tools[0].type"),
        (json!({ "tools": [function(json!({ "name": 1 }))] }), "tools[0].name"),
        (json!({ "tools": [function(json!({}))], "tool_choice": { "type": "function", "name": "g" } }), "tool_choice.name"),
        (json!({ "reasoning": { "effort": "high" } }), "reasoning.effort"),
        (json!({ "messages": [] }), "messages"),
        (json!({ "wat": 1 }), "wat"),
    ] {
        assert_eq!(server.post(RESPONSES, &body(more.clone())).error(400)["param"], param, "{more}");
    }
}

/// A fault on the way ends the stream with an event that says so.
#[test]
fn a_fault_is_told() {
    let server = TestServer::start();
    let events = events(&server.post(RESPONSES, &body(json!({ "stream": true, "logit_bias": { "1": 100 }, "max_output_tokens": 9 }))));
    let last = events.last().expect("events");
    assert_eq!((&last["type"], &last["response"]["status"]), (&json!("response.failed"), &json!("failed")));
    assert!(last["response"]["error"]["message"].is_string());
}
