//! `<function=NAME>{...}</function>`: Functionary 3.1, and Llama 3.1 with the custom format of its guide.

use super::super::{Block, Call, Close, Flaw, Format, Open, Stream, Tools, Written, json};

pub(super) static FORMAT: Format = Format {
    name: "functionary",
    detect: |template| template.contains("<function=") && template.contains("</function>"),
    blocks: &[Block { open: Open::Mark("<function="), close: Close::Marks(&["</function>"]), read, stream: STREAM }],
    written: &[Written { call: "<function=⟨name⟩>⟨arguments⟩</function>", ..Written::PLAIN }],
    ..Format::PLAIN
};
const STREAM: Stream =
    Stream { head: Some(|text, _| json::head_after(text, |head| Some((head.trim_end().strip_suffix('>')?, None)))), values: None };

fn read(text: &str, _: &Tools) -> Result<Vec<Call>, Flaw> {
    let (name, arguments) = text.split_once('>').ok_or(Flaw::Malformed)?;
    Ok(vec![Call { name: json::name(name)?, id: None, arguments: json::object(arguments)? }])
}
