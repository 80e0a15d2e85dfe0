//! BERT's `vocab.txt`: a token in each line, and what is done to text in `tokenizer_config.json`.

use super::{
    Parts, Tokenizer,
    added::AddedToken,
    config::{Config, Named},
    decode::Output,
    model::Model,
    normalize, split,
    strings::Strings,
    vocabulary::Vocabulary,
    word_piece::{LONGEST_WORD, WordPiece},
};
use crate::{Error, Result};
use std::borrow::Cow;

/// Classes in transformers that read such files as BERT does.
const CLASSES: &[&str] = &[
    "Bert",
    "ConvBert",
    "DistilBert",
    "DPR",
    "Electra",
    "Funnel",
    "LayoutLM",
    "Lxmert",
    "MobileBert",
    "Realm",
    "Retribert",
    "SqueezeBert",
];

/// What a token that continues a word starts with.
const CONTINUATION: &str = "##";

/// `ends`: ids of tokens that end a generation, from other files.
pub(super) fn read(origin: &str, text: &str, config: &Config, ends: &[u32]) -> Result<Tokenizer> {
    let class = config.tokenizer_class.as_deref().unwrap_or("BertTokenizer");
    let other =
        class.starts_with("BertJapanese") || class.starts_with("BertGeneration") || !CLASSES.iter().any(|name| class.starts_with(name));
    if other {
        return Err(Error::unsupported(origin, format!("`tokenizer_class` = `{class}` without a `tokenizer.json`")));
    }
    if config.do_basic_tokenize == Some(false) {
        return Err(Error::unsupported(origin, "`do_basic_tokenize` = false"));
    }
    let lines = text.strip_suffix('\n').unwrap_or(text).split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    // Empty lines are ids without a token.
    let vocab: Vec<_> = (0u64..).zip(lines).filter(|(_, line)| !line.is_empty()).map(|(id, line)| (Cow::Borrowed(line), id)).collect();
    let id = |text: &str| vocab.iter().find(|(token, _)| token == text).map(|(_, id)| *id as u32);
    let named = |token: &Option<Named>, default: &str| token.as_ref().map_or(default, Named::text).to_owned();
    let (unknown, first, last) = (named(&config.unk_token, "[UNK]"), named(&config.cls_token, "[CLS]"), named(&config.sep_token, "[SEP]"));
    let others = [named(&config.pad_token, "[PAD]"), named(&config.mask_token, "[MASK]")];
    let roles = [&unknown, &first, &last, &others[0], &others[1]];
    let special = roles
        .into_iter()
        .filter_map(|text| Some(AddedToken { id: id(text)?, content: text.clone(), special: true, ..AddedToken::default() }));
    let added = config.added_tokens(origin, special.collect())?;
    let vocabulary = Vocabulary::new(origin, &vocab, &added)?;
    let unknown = vocabulary.of_model(origin, "unk_token", &unknown)?;
    let before = vec![vocabulary.of_model(origin, "cls_token", &first)?];
    let after = vec![vocabulary.of_model(origin, "sep_token", &last)?];
    let model = Model::WordPiece(WordPiece::new(&vocabulary.texts, &vocabulary.model, CONTINUATION, unknown, LONGEST_WORD));

    let (mut start, mut others) = (Strings::default(), Strings::default());
    for text in vocabulary.texts.iter() {
        let text = String::from_utf8_lossy(text);
        start.push(normalize::clean_up(text.to_string()).as_bytes());
        let inner = text.strip_prefix(CONTINUATION).map_or_else(|| format!(" {text}"), str::to_owned);
        others.push(normalize::clean_up(inner).as_bytes());
    }
    let output = Output { bytes: others, first: Some(start), ..Output::default() };
    let chinese = config.tokenize_chinese_chars.unwrap_or(true);
    let normalizers = normalize::bert(true, chinese, config.strip_accents, config.do_lower_case.unwrap_or(true)).collect();
    let bos = config.bos(origin, &vocabulary)?;
    let ends = ends.iter().copied().chain(config.eos(&vocabulary)).collect();
    let Vocabulary { texts, index, flags, .. } = vocabulary;
    let steps = split::bert().into();
    Tokenizer::assemble(
        origin,
        Parts { texts, index, flags, added, normalizers, steps, model, output, before, after, pair: None, bos, ends },
    )
}
