use onebit_text::Tokenizer;

/// What the engine needs to know of tokens. [`Tokenizer`] is the real one; tests use toys.
pub trait Vocabulary: Send + Sync + 'static {
    /// The ids that end an answer.
    fn ends(&self) -> &[u32];
    /// Whether the token is a mark and not text.
    fn is_special(&self, id: u32) -> bool;
    /// The bytes that the token stands for inside a text, which need not be whole characters.
    fn bytes(&self, id: u32) -> &[u8];
}

impl Vocabulary for Tokenizer {
    fn ends(&self) -> &[u32] {
        self.eos()
    }
    fn is_special(&self, id: u32) -> bool {
        Tokenizer::is_special(self, id)
    }
    fn bytes(&self, id: u32) -> &[u8] {
        self.token_bytes(id).unwrap_or_default()
    }
}
