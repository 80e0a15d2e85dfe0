//! GPT-2's kind (`gpt2`): byte-pair encoding. The file names the pre-tokenizer (`tokenizer.ggml.pre`); what each name stands
//! for is in [`super::pre`].

use super::{
    Around, File, kind,
    pre::{self, Alphabet},
};
use crate::{
    Error, Result,
    tokenizer::{
        Tokenizer,
        bpe::{self, Bpe, Merges},
        bytes,
        model::Model,
        normalize::Normalizer,
        split::{Behavior, Pattern, Step},
    },
};

pub(super) fn read(file: &File<'_>) -> Result<Tokenizer> {
    let name = file.metadata.text("tokenizer.ggml.pre")?.ok_or_else(|| file.missing("tokenizer.ggml.pre"))?;
    read_named(file, name)
}

/// With the pre-tokenizer of this name.
pub(super) fn read_named(file: &File<'_>, name: &str) -> Result<Tokenizer> {
    let origin = &file.origin;
    let pre = pre::find(name)
        .ok_or_else(|| Error::unsupported(origin, format!("`tokenizer.ggml.pre` = `{name}` (known are {})", pre::names())))?;
    let byte_level = pre.alphabet == Alphabet::Bytes;
    let byte = |kind, text: &str| if kind == kind::BYTE { bytes::byte_token(text).map(|b| vec![b]) } else { None };
    let all = file.vocabulary(|kind, text| match pre.alphabet {
        Alphabet::Bytes => bytes::decode(text),
        Alphabet::Chars => byte(kind, text).or_else(|| Some(text.as_bytes().to_vec())),
        Alphabet::Pieces => byte(kind, text).or_else(|| Some(text.replace('▁', " ").into_bytes())),
    })?;
    let options = bpe::Options {
        byte_level,
        ignore_merges: pre.ignore_merges,
        byte_fallback: !byte_level,
        unknown: file.id("unknown", all.texts.len())?.filter(|_| !byte_level),
        fuse_unknown: true,
        ..bpe::Options::default()
    };
    let model = match file.metadata.texts("tokenizer.ggml.merges")? {
        Some(lines) => {
            let mut merges = Merges::new(&all.texts, &all.index, "", lines.len());
            for (rank, line) in lines.iter().enumerate() {
                merges.add_line(rank, line).map_err(|what| Error::invalid(origin, format!("`tokenizer.ggml.merges`: {what}")))?;
            }
            Bpe::new(&all.texts, &all.index, merges.finish(), options)
        }
        None => return Err(file.missing("tokenizer.ggml.merges")),
    };
    let mut normalizers = Vec::new();
    if pre.nfc {
        normalizers.push(Normalizer::Nfc);
    }
    if pre.alphabet == Alphabet::Pieces {
        normalizers.push(Normalizer::Replace { pattern: Pattern::Literal(" ".into()), content: "▁".into() });
    }
    let mut steps = pre.cuts.iter().map(|cut| cut.step(origin)).collect::<Result<Vec<_>>>()?;
    if pre.alphabet == Alphabet::Chars {
        steps.push(Step::Split { pattern: Pattern::Chars(char::is_whitespace), behavior: Behavior::Removed, invert: false });
    }
    file.assemble(all, normalizers, steps, Model::Bpe(Box::new(model)), Around { add_bos: pre.add_bos, ..Around::default() })
}
