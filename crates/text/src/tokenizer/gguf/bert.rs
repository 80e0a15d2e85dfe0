//! BERT's kind (`bert`): WordPiece, whose tokens begin with `▁` where they can start a word (in GGUF: the others are those that
//! `vocab.txt` writes with `##`).

use super::{Around, File, kind};
use crate::{
    Error, Result,
    tokenizer::{
        Tokenizer,
        model::Model,
        normalize, split,
        strings::Strings,
        word_piece::{self, WordPiece},
    },
};

pub(super) fn read(file: &File<'_>) -> Result<Tokenizer> {
    let mut all = file.vocabulary(|_, text| Some(text.as_bytes().to_vec()))?;
    let tokens = all.texts.len();
    let missing = |key: &str| Error::invalid(&file.origin, format!("the file has no `tokenizer.ggml.{key}_token_id`"));
    let unknown = file.id_or("unknown", 100, tokens)?.ok_or_else(|| missing("unknown"))?;
    let kinds = file.kinds()?;
    let text = |id: u32| !matches!(kinds(id), kind::CONTROL | kind::UNKNOWN);
    let all_text = || (0u32..).zip(all.texts.iter()).filter(|&(id, _)| text(id)).map(|(id, token)| (token, id));
    let starts = all_text().filter_map(|(token, id)| Some((token.strip_prefix("▁".as_bytes())?, id)));
    let continuations = all_text().filter(|(token, _)| !token.starts_with("▁".as_bytes()));
    let model = WordPiece::from_pieces(starts, continuations, unknown, word_piece::LONGEST_WORD);

    let (mut first, mut others) = (Strings::default(), Strings::default());
    for (id, token) in (0u32..).zip(all.texts.iter()) {
        let token = String::from_utf8_lossy(token);
        let (written, space) = match (token.strip_prefix('▁'), text(id)) {
            (Some(start), true) => (start, " "),
            (None, true) => (&*token, ""),
            (_, false) => (&*token, " "),
        };
        first.push(normalize::clean_up(written.to_owned()).as_bytes());
        others.push(normalize::clean_up(format!("{space}{written}")).as_bytes());
    }
    all.output.first = Some(first);
    all.output.bytes = others;

    let lowercase = file.flag("normalizer.lowercase", true)?;
    let accents = file.flag("normalizer.strip_accents", lowercase)?;
    let normalizers = normalize::bert(true, true, Some(accents), lowercase).collect();
    let first = file.id_or("bos", 101, tokens)?.ok_or_else(|| missing("bos"))?;
    let last = file.id_or("seperator", 102, tokens)?.ok_or_else(|| missing("seperator"))?;
    let around = Around { bos: Some(first), enclosed: Some((first, last)), ..Around::default() };
    file.assemble(all, normalizers, split::bert().into(), Model::WordPiece(model), around)
}
