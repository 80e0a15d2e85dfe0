//! The real `openai` package against the toy: for text the script that `./check` also runs against the binary with a model.

use crate::client::{TestServer, options};
use crate::toy::Toy;
use onebit_engine::Pool;
use onebit_server::ServeOptions;
use std::process::Command;
use std::time::Duration;

/// A Python that has the package.
fn python() -> Option<String> {
    let venv = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/check-venv/bin/python");
    let named = std::env::var("ONEBIT_PYTHON").ok();
    let candidates = [named, Some(venv.into()), Some("python3".into())];
    let has_package = |python: &String| Command::new(python).args(["-c", "import openai"]).output().is_ok_and(|o| o.status.success());
    let found = candidates.into_iter().flatten().find(has_package);
    if found.is_none() {
        eprintln!("SKIPPED: no Python with the `openai` package (ONEBIT_PYTHON names one)");
    }
    found
}

fn secret() -> ServeOptions {
    ServeOptions { api_keys: vec!["secret".into()], ..options() }
}

fn succeeds(command: &mut Command) {
    let output = command.output().expect("Python runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
}

#[test]
fn the_openai_package_works() {
    let Some(python) = python() else { return };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/openai_client.py");
    let server = TestServer::with(secret(), Toy { step: Duration::from_millis(2), context: 4096, ..Toy::default() });
    let base = format!("http://{}/v1", server.address);
    succeeds(Command::new(python).args([script, "--base-url", &base, "--model", "toy", "--api-key", "secret"]));
    server.wait_until("empty", |s| s.running == 0 && s.waiting == 0);
}

/// The package asks for base64 unless it is told otherwise, and reads it back.
const EMBEDDINGS: &str = "
import sys, openai
client = openai.OpenAI(base_url=sys.argv[1], api_key='secret', max_retries=0)
for more in ({}, {'encoding_format': 'float'}, {'dimensions': 3}):
    answer = client.embeddings.create(model='toy', input=['ab', 'ba', 'c'], **more)
    vectors = [d.embedding for d in answer.data]
    assert [len(v) for v in vectors] == [3, 3, 3] and vectors[0] == vectors[1] != vectors[2], vectors
    assert abs(sum(x * x for x in vectors[0]) - 1) < 1e-5 and abs(vectors[0][0] / vectors[0][1] - 97.5) < 1e-3, vectors
    assert answer.usage.prompt_tokens == answer.usage.total_tokens == 5
try:
    client.embeddings.create(model='toy', input='ab', dimensions=4)
except openai.BadRequestError as error:
    assert error.param == 'dimensions', error
else:
    sys.exit('too many dimensions were accepted')
";

#[test]
fn the_openai_package_embeds() {
    let Some(python) = python() else { return };
    let server = TestServer::with(secret(), Toy { embeds: Some(Pool::Mean), ..Toy::default() });
    succeeds(Command::new(python).args(["-c", EMBEDDINGS, &format!("http://{}/v1", server.address)]));
}
