//! Scores of documents. The toy's is the mean of the ids of query, mark and document, those of the document being a half more.

use crate::client::{TestServer, options};
use crate::toy::Toy;
use onebit_engine::Pool;
use onebit_server::{Limits, ServeOptions};
use serde_json::{Value, json};

fn server(options: ServeOptions) -> TestServer {
    TestServer::with(options, Toy { embeds: Some(Pool::Mean), ranks: true, context: 16, ..Toy::default() })
}

/// Of the query `q` and a document.
fn score(document: &str) -> f64 {
    let sum: f64 = document.bytes().map(|b| f64::from(b) + 0.5).sum();
    (113.0 + 256.0 + sum) / (2 + document.len()) as f64
}

fn indices(reply: &Value) -> Vec<u64> {
    reply["results"].as_array().expect("results").iter().map(|r| r["index"].as_u64().expect("an index")).collect()
}

#[test]
fn documents_by_score() {
    let server = server(options());
    let documents = json!(["a", "zz", { "text": "z" }]);
    for path in ["/v1/rerank", "/rerank", "/v1/reranking", "/reranking"] {
        let reply = server.post(path, &json!({ "model": "toy", "query": "q", "documents": documents })).ok();
        assert_eq!((&reply["object"], &reply["model"]), (&json!("list"), &json!("toy")));
        assert_eq!(reply["usage"], json!({ "prompt_tokens": 10, "total_tokens": 10 }));
        assert_eq!(indices(&reply), [2, 0, 1]);
        for (result, document) in reply["results"].as_array().expect("results").iter().zip(["z", "a", "zz"]) {
            let found = result["relevance_score"].as_f64().expect("a score");
            assert!((found - score(document)).abs() < 1e-4, "{document}: {found} for {}", score(document));
            assert_eq!(result.get("document"), None);
        }
    }
    let reply = server.post("/v1/rerank", &json!({ "query": "q", "texts": documents, "top_n": 2, "return_documents": true })).ok();
    assert_eq!((indices(&reply), &reply["results"][0]["document"]), (vec![2, 0], &json!({ "text": "z" })));
}

#[test]
fn refusals() {
    let server = server(ServeOptions { limits: Limits { inputs: 3, ..Limits::default() }, ..options() });
    for (body, status, param) in [
        (json!({ "documents": ["a"] }), 400, json!("query")),
        (json!({ "query": "q" }), 400, json!("documents")),
        (json!({ "query": ["q"], "documents": ["a"] }), 400, json!("query")),
        (json!({ "query": "q", "documents": [] }), 400, json!("documents")),
        (json!({ "query": "q", "documents": "a" }), 400, json!("documents")),
        (json!({ "query": "q", "documents": ["a", 1] }), 400, json!("documents[1]")),
        (json!({ "query": "q", "documents": [{ "title": "a" }] }), 400, json!("documents[0]")),
        (json!({ "query": "q", "documents": ["a", "a", "a", "a"] }), 400, json!("documents")),
        (json!({ "query": "q", "documents": ["a"], "texts": ["a"] }), 400, json!("texts")),
        (json!({ "query": "q", "documents": ["a"], "top_n": 0 }), 400, json!("top_n")),
        (json!({ "query": "q", "documents": ["a"], "max_chunks_per_doc": 2 }), 400, json!("max_chunks_per_doc")),
        (json!({ "query": "q", "documents": ["12345678901234567"] }), 413, json!("documents")),
    ] {
        let error = server.post("/v1/rerank", &body).error(status);
        assert_eq!(error["param"], param, "{body}: {error}");
    }
    // What is loaded to score does not embed, and the other way round.
    server.post("/v1/embeddings", &json!({ "input": "a" })).error(501);
    TestServer::start().post("/v1/rerank", &json!({ "query": "q", "documents": ["a"] })).error(501);
}
