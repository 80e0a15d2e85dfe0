//! What a server is told when it starts.

use crate::notify::Notify;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

/// Where to listen, whom to answer, and how much to take.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Address to listen on: an IP address, or a name that resolves to one.
    pub host: String,
    /// Port to listen on; 0 takes a free one.
    pub port: u16,
    /// Keys of which a client must present one, as `Authorization: Bearer KEY` or `X-Api-Key: KEY`. Empty: no key is asked for.
    pub api_keys: Vec<String>,
    /// Allows an address that other machines can reach although no key is asked for.
    pub allow_no_auth: bool,
    /// Names in `Host` that are answered besides `localhost`, IP addresses and [`Self::host`]. `*` allows all.
    pub allowed_hosts: Vec<String>,
    /// Values of `Origin` that are answered besides the server's own, and to which CORS headers are sent. `*` allows all.
    pub allowed_origins: Vec<String>,
    /// Answers whatever model a request names. Otherwise an unknown name is a 404.
    pub any_model: bool,
    /// The model's name, as clients ask for it.
    pub model: String,
    /// Further names for the model.
    pub aliases: Vec<String>,
    /// The most tokens of reasoning in answers of chats where a request does not say, if there is a bound. 0: none, where the template can turn
    /// it off, else its mark is closed at once.
    pub reasoning_budget: Option<usize>,
    /// Whether `/metrics` is answered.
    pub metrics: bool,
    /// Whether `/slots` is answered.
    pub slots: bool,
    /// Whether `/props` is answered.
    pub props: bool,
    /// The folder for what slots have computed; without one nothing is saved.
    pub slot_save_path: Option<PathBuf>,
    /// Who is told when the server is ready, and that it is alive.
    pub notify: Option<Notify>,
    /// How long running answers may go on after a signal to stop.
    pub drain: Duration,
    /// What one request and all connections may take.
    pub limits: Limits,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            host: Ipv4Addr::LOCALHOST.to_string(),
            port: 8080,
            api_keys: vec![],
            allow_no_auth: false,
            allowed_hosts: vec![],
            allowed_origins: vec![],
            any_model: false,
            model: "model".into(),
            aliases: vec![],
            reasoning_budget: None,
            metrics: false,
            slots: false,
            props: false,
            slot_save_path: None,
            notify: None,
            drain: Duration::from_secs(10),
            limits: Limits::default(),
        }
    }
}

impl ServeOptions {
    /// Whether a key is asked for.
    pub(crate) fn needs_key(&self) -> bool {
        !self.api_keys.is_empty()
    }

    /// Whether a request may name the model `name`.
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.any_model || self.is_ours(name)
    }

    /// Whether `name` is one of the model's names.
    pub(crate) fn is_ours(&self, name: &str) -> bool {
        self.model == name || self.aliases.iter().any(|a| a == name)
    }

    /// Whether listening on `address` without a key is safe enough.
    pub(crate) fn may_listen_on(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.needs_key() || self.allow_no_auth
    }
}

/// Bounds on requests and connections. Whatever exceeds one gets an error that names it.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes in a request's body.
    pub body: usize,
    /// Bytes in all bodies that are being received or read at a time.
    pub bodies: usize,
    /// Values in a request's JSON: objects, arrays, members, strings, numbers.
    pub values: usize,
    /// Objects and arrays within one another in a request's JSON.
    pub depth: usize,
    /// Time for a request's head, and for which a connection may idle between requests.
    pub head_time: Duration,
    /// Time for a request's body.
    pub body_time: Duration,
    /// Time for which a request may wait until its model is loaded, where there are several.
    pub load_time: Duration,
    /// Time for which a client may take nothing of an answer that waits for it.
    pub write_time: Duration,
    /// Connections at a time; further ones wait to be accepted.
    pub connections: usize,
    /// Messages in a chat.
    pub messages: usize,
    /// Images in a chat.
    pub images: usize,
    /// Size of an image.
    pub image: onebit_vision::Limits,
    /// Tools that a chat may call.
    pub tools: usize,
    /// Prompts in one request for completions.
    pub prompts: usize,
    /// Texts in one request for embeddings.
    pub inputs: usize,
    /// Choices in one answer: prompts times `n`.
    pub choices: usize,
    /// Stop strings.
    pub stops: usize,
    /// Bytes in a stop string.
    pub stop_bytes: usize,
    /// Entries of `logit_bias`.
    pub logit_bias: usize,
    /// Alternatives for each token in `top_logprobs` and `logprobs`.
    pub top_logprobs: usize,
    /// Texts of which an answer may be held to one.
    pub form_choices: usize,
    /// Files in the folder for slots.
    pub slot_files: usize,
    /// What schemas and grammars may cost.
    pub grammar: onebit_grammar::Limits,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 16 << 20,
            bodies: 256 << 20,
            values: 1 << 19,
            depth: 64,
            head_time: Duration::from_secs(30),
            body_time: Duration::from_secs(60),
            load_time: Duration::from_secs(600),
            write_time: Duration::from_secs(60),
            connections: 2048,
            messages: 4096,
            images: 32,
            image: onebit_vision::Limits::default(),
            tools: 512,
            prompts: 128,
            inputs: 2048,
            choices: 128,
            stops: 64,
            stop_bytes: 1024,
            logit_bias: 2048,
            top_logprobs: 20,
            form_choices: 4096,
            slot_files: 64,
            grammar: onebit_grammar::Limits::default(),
        }
    }
}
