//! Each part of an answer begins with `>>>` and who it is for: `>>>all` a text for the user, `>>>NAME` a call, on the next line its
//! arguments as JSON: Functionary 3.2. The prompt ends with the first `>>>`.

use super::super::{Beside, Block, Call, Close, Flaw, Format, Lead, Open, Stream, Tools, Written, json};

const BEGIN: &str = ">>>";

pub(super) static FORMAT: Format = Format {
    name: "functionary-v3.2",
    detect: |template| template.contains(">>>all"),
    blocks: &[Block { open: Open::Mark(BEGIN), close: Close::Brackets, read, stream: STREAM }],
    silent: &[">>>all\n"],
    begun: Some(BEGIN),
    lead: Lead::Always("all\n"),
    written: &[Written { call: "⟨name⟩\n⟨arguments⟩", between: Some(BEGIN), beside: Beside::Before(BEGIN), ..Written::PLAIN }],
    ..Format::PLAIN
};
const STREAM: Stream = Stream {
    head: Some(|text, _| json::head_after(text, |head| Some((head.trim_end_matches(' ').strip_suffix('\n')?, None)))),
    values: None,
};

fn read(text: &str, _: &Tools) -> Result<Vec<Call>, Flaw> {
    let (name, arguments) = text.split_once('\n').ok_or(Flaw::Cut)?;
    Ok(vec![Call { name: json::name(name)?, id: None, arguments: json::object(arguments)? }])
}
