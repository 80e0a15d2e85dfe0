//! AutoRound (Cheng et al. 2023, arXiv:2309.05516), which packs as GPTQ or as AWQ does.

use super::{awq, fields::Fields, gptq, reader::Reader};
use crate::Result;

pub(super) fn read(fields: &Fields<'_>, reader: &mut Reader<'_>) -> Result<()> {
    const KEY: &str = "packing_format";
    const GPTQ: &[&str] = &["auto_round:auto_gptq", "auto_round:gptq", "auto_gptq", "gptq"];
    const GPTQMODEL: &[&str] = &["auto_round", "auto_round:gptqmodel", "gptqmodel"];
    const AWQ: &[&str] = &["auto_round:auto_awq", "auto_round:awq", "auto_awq", "awq"];
    fields.word("data_type", &["int"], "int")?;
    let key = if fields.has("backend") && !fields.has(KEY) { "backend" } else { KEY };
    let known: Vec<&'static str> = [GPTQ, GPTQMODEL, AWQ].concat();
    let packing = fields.word(key, &known, GPTQ[0])?;
    let group = fields.group("group_size")?;
    if AWQ.contains(&packing) {
        fields.bits("bits", &[4])?;
        return awq::modules(group, "AutoRound (AWQ)", reader);
    }
    let settings = gptq::Settings {
        bits: fields.bits("bits", &[2, 3, 4, 8])?,
        group,
        less_one: GPTQ.contains(&packing),
        ordered: fields.flag("act_order")?.or(fields.flag("desc_act")?).unwrap_or(false),
        mixed: fields.filled("extra_config"),
        name: "AutoRound (GPTQ)",
    };
    gptq::modules(&settings, reader)
}
