//! `<function=NAME>{...}</function>`: Functionary 3.1, and Llama 3.1 with the custom format of its guide.

use super::super::{Block, Call, Close, Flaw, Format, Open, Tools, json};

pub(super) static FORMAT: Format = Format {
    name: "functionary",
    detect: |template| template.contains("<function=") && template.contains("</function>"),
    blocks: &[Block { open: Open::Mark("<function="), close: Close::Marks(&["</function>"]), read }],
    silent: &[],
    within: &[],
    reasoning: &[],
};

fn read(text: &str, _: &Tools) -> Result<Vec<Call>, Flaw> {
    let (name, arguments) = text.split_once('>').ok_or(Flaw::Malformed)?;
    if !json::is_name(name) {
        return Err(Flaw::Malformed);
    }
    Ok(vec![Call { name: name.to_owned(), id: None, arguments: json::object(arguments)? }])
}
