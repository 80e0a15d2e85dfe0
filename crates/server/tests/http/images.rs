//! Images in chats. The toy goes on from a pixel with the letter that its colour is the code of.

use crate::client::{TestServer, options};
use crate::tower::png;
use crate::toy::Toy;
use onebit_server::{Limits, ServeOptions};
use serde_json::{Value, json};

fn seeing() -> TestServer {
    TestServer::with(options(), Toy { sees: true, ..Toy::default() })
}

fn image(url: &str) -> Value {
    json!({ "type": "image_url", "image_url": { "url": url } })
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// A request whose one message holds these parts.
fn request(parts: &[Value]) -> Value {
    json!({ "messages": [{ "role": "user", "content": parts }], "temperature": 0, "max_tokens": 4 })
}

#[test]
fn rows_stand_where_images_are() {
    let server = seeing();
    let ask = |parts: &[Value]| {
        let reply = server.post("/v1/chat/completions", &request(parts)).ok();
        (reply["choices"][0]["message"]["content"].clone(), reply["usage"]["prompt_tokens"].clone())
    };
    // What the template writes before it, three letters, and a token for each pixel.
    let (q, d) = (png(1, b'q'), png(5, b'd'));
    assert_eq!(ask(&[text("abc"), image(&q)]), (json!("qrst"), json!(3 + 3 + 1)));
    assert_eq!(ask(&[image(&d), text("abc"), image(&q)]), (json!("qrst"), json!(3 + 5 + 3 + 1)));
    assert_eq!(ask(&[image(&q), text("abc"), image(&d)]), (json!("defg"), json!(3 + 1 + 3 + 5)));
    // One after the other, a second time (from memory), and in the form of OpenAI's Responses.
    assert_eq!(ask(&[image(&q), image(&d)]), (json!("defg"), json!(3 + 6)));
    assert_eq!(ask(&[image(&d), json!({ "type": "input_image", "image_url": q })]), (json!("qrst"), json!(3 + 6)));
    // Text that looks like an image's mark is text.
    assert_eq!(ask(&[text("<image>"), image(&q)]), (json!("qrst"), json!(3 + 7 + 1)));
    assert_eq!(server.get("/v1/models").ok()["data"][0]["meta"]["vision"], true);
}

#[test]
fn images_of_several_messages_stay_in_order() {
    let server = seeing();
    let messages = json!([
        { "role": "user", "content": [image(&png(2, b'd'))] },
        { "role": "assistant", "content": "defg" },
        { "role": "user", "content": [text("and this?"), image(&png(1, b'k'))] },
    ]);
    let reply = server.post("/v1/chat/completions", &json!({ "messages": messages, "temperature": 0, "max_tokens": 3 })).ok();
    assert_eq!(reply["choices"][0]["message"]["content"], "klm");
}

#[test]
fn a_template_without_images_gets_their_marks() {
    let server = TestServer::with(options(), Toy { sees: true, plain: true, ..Toy::default() });
    let reply = server.post("/v1/chat/completions", &request(&[image(&png(3, b'q')), text("hi")])).ok();
    // Role, space, three pixels, line break, two letters, and the marks around; then what begins an answer.
    let around = "S".len() + "user ".len() + "\nhi".len() + "E".len() + "Sassistant ".len();
    assert_eq!(reply["usage"]["prompt_tokens"], 3 + around);
}

#[test]
fn refusals_name_the_part() {
    let limits = Limits { images: 2, image: onebit_vision::Limits { bytes: 2000, pixels: 300 }, ..Limits::default() };
    let server = TestServer::with(ServeOptions { limits, ..options() }, Toy { sees: true, ..Toy::default() });
    let good = png(1, b'q');
    let at = "messages[0].content[0].image_url";
    for (parts, param, says) in [
        (vec![image("https://example.com/a.png")], at, "`https://example.com/a.png` is not fetched"),
        (vec![image("file:///etc/passwd")], at, "is not fetched"),
        (vec![image("data:image/png,abc")], at, "is not in Base64"),
        (vec![image("data:image/png;base64,????")], at, "is not valid Base64"),
        (vec![image("data:image/png;base64,aGVsbG8=")], at, "no PNG, JPEG, WebP, GIF or BMP"),
        (vec![image(&good[..good.len() - 24])], at, "cannot be decoded"),
        (vec![image(&png(301, 1))], at, "the image has 301 x 1 pixels; at most 300 are allowed"),
        (vec![image(&format!("data:;base64,{}", "A".repeat(4000)))], at, "the image has 3000 bytes; at most 2000 are allowed"),
        (vec![json!({ "type": "image_url" })], at, "image_url"),
        (vec![json!({ "type": "image_url", "image_url": { "url": 1 } })], "messages[0].content[0].image_url.url", "string"),
        (
            vec![json!({ "type": "image_url", "image_url": { "url": good, "detail": "low" } })],
            "messages[0].content[0].image_url.detail",
            "detail",
        ),
        (vec![image(&good), image(&good), image(&good)], "messages[0].content[2].image_url", "images"),
    ] {
        let reply = server.post("/v1/chat/completions", &request(&parts));
        let error = &reply.json()["error"];
        let message = error["message"].as_str().unwrap_or_default();
        assert!(reply.status == 400 || reply.status == 413, "{message}");
        assert_eq!(error["param"], param, "{message}");
        assert!(message.contains(says), "{message}");
    }
    // More rows than the context holds.
    let server = seeing();
    let error = server.post("/v1/chat/completions", &request(&[image(&png(300, b'q'))]));
    assert_eq!(error.json()["error"]["code"], "context_length_exceeded");
}

#[test]
fn a_model_without_vision_says_so() {
    let reply = TestServer::start().post("/v1/chat/completions", &request(&[image(&png(1, b'q'))]));
    assert_eq!(reply.status, 400);
    let message = "`messages[0].content[0]`: the model has no vision, so images cannot be part of a message";
    assert_eq!(reply.json()["error"]["message"], message);
}
