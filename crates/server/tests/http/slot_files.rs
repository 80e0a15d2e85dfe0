//! Slots that are saved to files and restored.

use crate::client::{Reply, TestServer, options};
use crate::toy::{PAGE_BYTES, Toy};
use onebit_server::{Limits, ServeOptions};
use serde_json::{Value, json};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

const TEXT: &str = "/v1/completions";

fn server(folder: &Path, identity: u8) -> TestServer {
    let limits = Limits { slot_files: 3, ..Limits::default() };
    let options = ServeOptions { slot_save_path: Some(folder.to_path_buf()), limits, ..options() };
    TestServer::with(options, Toy { keeps: true, identity, ..Toy::default() })
}

fn act(server: &TestServer, slot: &str, action: &str, file: &str) -> Reply {
    server.post(&format!("/slots/{slot}?action={action}"), &json!({ "filename": file }))
}

/// How many tokens of the prompt were known.
fn cached(server: &TestServer, prompt: &str) -> Value {
    let reply = server.post(TEXT, &json!({ "prompt": prompt, "max_tokens": 4, "temperature": 0 })).ok();
    reply["usage"]["prompt_tokens_details"]["cached_tokens"].clone()
}

#[test]
fn a_slot_survives_the_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let prompt = "a".repeat(40);
    let one = server(folder.path(), 1);
    assert_eq!((cached(&one, &prompt), cached(&one, &prompt)), (json!(0), json!(32)));
    let reply = act(&one, "0", "save", "chat-1.bin").ok();
    // Two pages of 16 of the 43 tokens that were computed; 72 bytes before and 32 behind.
    let size = 72 + 32 * 4 + 2 * PAGE_BYTES + 32;
    assert_eq!((&reply["id_slot"], &reply["filename"]), (&json!(0), &json!("chat-1.bin")));
    assert_eq!((&reply["n_saved"], &reply["n_written"]), (&json!(32), &json!(size)));
    assert!(reply["timings"]["save_ms"].is_f64());
    let meta = std::fs::metadata(folder.path().join("chat-1.bin")).expect("a file");
    assert_eq!((meta.len() as usize, meta.permissions().mode() & 0o777), (size, 0o600), "nobody else may read what clients wrote");
    drop(one);

    let other = server(folder.path(), 1);
    let reply = act(&other, "3", "restore", "chat-1.bin").ok();
    assert_eq!((&reply["n_restored"], &reply["n_read"], &reply["id_slot"]), (&json!(32), &json!(size), &json!(3)));
    assert_eq!(cached(&other, &prompt), 32);
    assert_eq!(act(&other, "3", "erase", "").ok(), json!({ "id_slot": 3, "n_erased": 32 }));
    assert_eq!(cached(&other, &prompt), 0);
    // A second saving under the same name takes the place of the first.
    act(&other, "0", "save", "chat-1.bin").ok();
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let one = server(folder.path(), 1);
    assert_eq!(act(&one, "0", "save", "x").error(400)["code"], "nothing_to_save");
    cached(&one, &"a".repeat(40));
    act(&one, "0", "save", "x").ok();
    for (slot, action, file, param) in [
        ("4", "save", "y", "id_slot"),
        ("-1", "save", "y", "id_slot"),
        ("x", "save", "y", "id_slot"),
        ("0", "print", "y", "action"),
        ("0", "save", "", "filename"),
        ("0", "save", "../y", "filename"),
        ("0", "save", "a/b", "filename"),
        ("0", "save", ".hidden", "filename"),
        ("0", "save", "a b", "filename"),
        ("0", "save", "\u{e9}", "filename"),
        ("0", "restore", "absent", "filename"),
    ] {
        assert_eq!(act(&one, slot, action, file).error(400)["param"], param, "{slot} {action} {file}");
    }
    assert_eq!(one.post("/slots/0?action=save", &json!({ "filename": "y".repeat(129) })).error(400)["param"], "filename");
    assert_eq!(one.post("/slots/0?action=save", &json!({ "filename": "y", "more": 1 })).error(400)["param"], "more");
    assert_eq!(one.post("/slots/0?action=save", &json!({})).error(400)["param"], "filename");
    // Of another model, cut, changed, of another kind, or nothing that ends.
    let whole = std::fs::read(at("x")).expect("a file");
    let mut changed = whole.clone();
    changed[300] ^= 1;
    std::fs::write(at("cut"), &whole[..whole.len() - 1]).expect("written");
    std::fs::write(at("changed"), changed).expect("written");
    symlink("/dev/zero", at("endless")).expect("a link");
    for (file, words) in [("cut", "cut or damaged"), ("changed", "damaged"), ("endless", "no file")] {
        let error = act(&one, "0", "restore", file).error(400);
        assert!(error["message"].as_str().is_some_and(|m| m.contains(words)), "{file}: {error}");
    }
    let error = act(&server(folder.path(), 2), "0", "restore", "x").error(400);
    assert!(error["message"].as_str().is_some_and(|m| m.contains("another model")), "{error}");
}

#[test]
fn a_full_folder_keeps_what_is_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let one = server(folder.path(), 1);
    cached(&one, &"a".repeat(40));
    for name in ["1", "2", "3"] {
        act(&one, "0", "save", name).ok();
    }
    assert_eq!(act(&one, "0", "save", "4").error(507)["code"], "storage");
    act(&one, "0", "save", "3").ok();
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 3);
}

#[test]
fn without_a_folder_nothing_is_saved() {
    let one = TestServer::with(options(), Toy { keeps: true, ..Toy::default() });
    let error = act(&one, "0", "save", "x").error(501);
    assert!(error["message"].as_str().is_some_and(|m| m.contains("--slot-save-path")), "{error}");
    let folder = tempfile::tempdir().expect("a folder");
    let options = ServeOptions { slot_save_path: Some(folder.path().to_path_buf()), ..options() };
    act(&TestServer::with(options, Toy::default()), "0", "save", "x").error(501);
}
