//! The script that drives a server with the real `openai` package, against the toy. `./check` runs the same script against
//! the binary with a model.

use crate::client::{TestServer, options};
use crate::toy::Toy;
use onebit_server::ServeOptions;
use std::process::Command;
use std::time::Duration;

#[test]
fn the_openai_package_works() {
    let manifest = env!("CARGO_MANIFEST_DIR");
    let script = format!("{manifest}/tests/openai_client.py");
    let venv = format!("{manifest}/../../target/check-venv/bin/python");
    let named = std::env::var("ONEBIT_PYTHON").ok();
    let candidates = [named, Some(venv), Some("python3".into())];
    let has_package = |python: &String| Command::new(python).args(["-c", "import openai"]).output().is_ok_and(|o| o.status.success());
    let Some(python) = candidates.into_iter().flatten().find(has_package) else {
        eprintln!("SKIPPED: the_openai_package_works: no Python with the `openai` package (ONEBIT_PYTHON names one)");
        return;
    };
    let options = ServeOptions { api_keys: vec!["secret".into()], ..options() };
    let server = TestServer::with(options, Toy { step: Duration::from_millis(2), ..Toy::default() });
    let base = format!("http://{}/v1", server.address);
    let output =
        Command::new(python).args([&script, "--base-url", &base, "--model", "toy", "--api-key", "secret"]).output().expect("Python runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    server.wait_until("empty", |s| s.running == 0 && s.waiting == 0);
}
