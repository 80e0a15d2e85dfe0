//! Kinds of tokens, in `tokenizer.ggml.token_type` (`enum llama_token_type` of llama.cpp).

/// Text.
pub const NORMAL: i64 = 1;
/// What stands for text that no token has.
pub const UNKNOWN: i64 = 2;
/// A mark, not text.
pub const CONTROL: i64 = 3;
/// Added, and found whole in texts.
pub const USER_DEFINED: i64 = 4;
/// A place that nothing has taken.
pub const UNUSED: i64 = 5;
/// A single byte.
pub const BYTE: i64 = 6;
