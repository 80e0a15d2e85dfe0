//! From the plan's names of weights to the tensors of a checkpoint.
//!
//! The plan uses ggml's names, so a GGUF file needs no table. For Hugging Face directories an architecture lists what each
//! module is called there: [`tensor`]`("blk.{}.attn_q", "model.layers.{}.self_attn.q_proj")`. The table also says what the
//! two forms differ in besides names: edits that loading applies, and orders that only `convert` needs, because a plan can
//! work in either.

use crate::{
    Error, Result,
    arch::{Arch, bitnet},
    settings::Settings,
};
use onebit_formats::{Checkpoint, Rows, Source, Tensor};
use onebit_plan::{Edit, Model, Part, Resolve, Weight};
use onebit_quants::F32;
use std::{collections::HashSet, ops::Range, sync::Arc};

/// Where the rows or columns of a tensor in a GGUF file come from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Order {
    /// Row `i` is row `[i]` of the Hugging Face tensor. A vector is a matrix of one column.
    Rows(Vec<usize>),
    /// The same in each run of so many rows.
    Runs(Vec<usize>),
    /// Column `i` is column `[i]`.
    Columns(Vec<usize>),
    /// Each matrix of a stack is transposed.
    Transposed,
}

/// Which rows of another tensor a weight is made of.
#[derive(Clone, Copy, Debug)]
enum Run {
    /// Run `index` of the `count` equal runs of rows of each matrix.
    Part { index: usize, count: usize },
    /// The first or the last rows of each of the equal runs that the weight has matrices for.
    Head { last: bool },
    /// Each `count`th row of each matrix (number of each vector), from `index` on.
    Turns { index: usize, count: usize },
}

/// Rows of another tensor, in GGUF files and in Hugging Face directories.
#[derive(Clone, Copy, Debug)]
struct Fused {
    gguf: &'static str,
    hf: &'static str,
    run: Run,
    /// Whether plain (not quantized) matrices are stored one row for each number of the input.
    turned: bool,
}

/// One module's names. `{}` stands for the layer, `{e}` for the expert. Names of modules come without `.weight` and `.bias`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    gguf: &'static str,
    hf: &'static str,
    /// Another name on the Hub.
    other: Option<&'static str>,
    /// On the Hub the rows of these follow.
    then: &'static [&'static str],
    fused: Option<Fused>,
    transposed: bool,
    edit: Edit,
    /// Dimensions of one that GGUF files have: behind how many of the others, and how many.
    pub(crate) ones: (usize, usize),
    /// Whether GGUF files have it as a vector.
    pub(crate) flat: bool,
    /// Whether GGUF files call it without `.weight` or `.bias`.
    bare: bool,
    /// Whether GGUF files hold the other tensor that it is a part of.
    whole: bool,
    /// The name in GGUF files, where it is not the plan's.
    renamed: Option<&'static str>,
    order: Option<fn(&Settings<'_>) -> Result<Order>>,
    /// The numbers of a layer's table in this shape, which follow from the settings: checkpoints need not hold it, and GGUF files do not.
    made: Option<Made>,
}

/// Makes the numbers of a table from the settings, the layer, and the table's shape.
type Made = fn(&Settings<'_>, usize, &[usize]) -> Result<Vec<f32>>;

/// A module's name in GGUF files and in Hugging Face directories.
pub(crate) const fn tensor(gguf: &'static str, hf: &'static str) -> Entry {
    Entry {
        gguf,
        hf,
        other: None,
        then: &[],
        fused: None,
        transposed: false,
        edit: Edit::None,
        ones: (0, 0),
        flat: false,
        bare: false,
        whole: false,
        renamed: None,
        order: None,
        made: None,
    }
}

/// A module that GGUF files hold, and Hugging Face directories as run `index` of the `count` equal runs of rows of each matrix of
/// the tensor `hf` (a full name).
pub(crate) const fn part(gguf: &'static str, hf: &'static str, index: usize, count: usize) -> Entry {
    tensor(gguf, "").or_fused("", hf, index, count)
}

impl Entry {
    /// The module's name in the plan, within its layer.
    pub(crate) fn plan_name(&self) -> &'static str {
        layer_parts(self.gguf).map_or(self.gguf, |(_, _, name)| name)
    }
    /// Hugging Face stores the weight less one.
    pub(crate) const fn add_one(self) -> Self {
        self.add(1.0)
    }
    /// Hugging Face stores the weight less `a`.
    pub(crate) const fn add(mut self, a: f32) -> Self {
        self.edit = Edit::Add(a);
        self
    }
    /// Hugging Face stores the logarithm of the negated weight.
    pub(crate) const fn neg_exp(mut self) -> Self {
        self.edit = Edit::NegExp;
        self
    }
    /// Hugging Face stores the logarithm of the weight.
    pub(crate) const fn exp(mut self) -> Self {
        self.edit = Edit::Exp;
        self
    }
    /// Hugging Face stores the weight before a softplus.
    pub(crate) const fn softplus(mut self) -> Self {
        self.edit = Edit::Softplus;
        self
    }
    /// Rows count as if they all had the length one, which GGUF files hold so.
    pub(crate) const fn unit_rows(mut self) -> Self {
        self.edit = Edit::UnitRow;
        self
    }
    /// GGUF files call it without `.weight` or `.bias`.
    pub(crate) const fn bare(mut self) -> Self {
        self.bare = true;
        self
    }
    /// GGUF files call it by this full name.
    pub(crate) const fn renamed(mut self, gguf: &'static str) -> Self {
        self.renamed = Some(gguf);
        self
    }
    /// GGUF files hold the other tensor that it is a part of.
    pub(crate) const fn whole(mut self) -> Self {
        self.whole = true;
        self
    }
    /// The name of the other tensor in layer `layer` of a GGUF file, where that is held.
    pub(crate) fn whole_name(&self, layer: &str) -> Option<String> {
        self.fused.filter(|_| self.whole).map(|fused| fused.gguf.replace("{}", layer))
    }
    /// The name in GGUF files of what the plan calls `name`.
    pub(crate) fn gguf_name<'n>(&self, name: &'n str) -> &'n str {
        if let Some(renamed) = self.renamed {
            return renamed;
        }
        if self.bare { [".weight", ".bias"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name) } else { name }
    }
    /// GGUF files have a dimension of one behind the first.
    pub(crate) const fn one_behind(self) -> Self {
        self.ones(1, 1)
    }
    /// GGUF files have it as a vector.
    pub(crate) const fn flat(mut self) -> Self {
        self.flat = true;
        self
    }
    /// GGUF files have so many dimensions of one behind the first `others`.
    pub(crate) const fn ones(mut self, others: usize, count: usize) -> Self {
        self.ones = (others, count);
        self
    }
    /// Another name that it may have in a Hugging Face directory.
    pub(crate) const fn or(mut self, hf: &'static str) -> Self {
        self.other = Some(hf);
        self
    }
    /// In a Hugging Face directory it is several tensors, of which these follow the first, row after row.
    pub(crate) const fn then(mut self, hf: &'static [&'static str]) -> Self {
        self.then = hf;
        self
    }
    /// In a Hugging Face directory matrices have their inputs as rows.
    pub(crate) const fn transposed(mut self) -> Self {
        self.transposed = true;
        self
    }
    /// Some checkpoints hold it as run `index` of the `count` equal runs of rows of each matrix of another tensor, whose full
    /// names these are.
    pub(crate) const fn or_fused(mut self, gguf: &'static str, hf: &'static str, index: usize, count: usize) -> Self {
        self.fused = Some(Fused { gguf, hf, run: Run::Part { index, count }, turned: false });
        self
    }
    /// Checkpoints hold each of the weight's matrices (or the one that it is) as the first, or the `last`, rows of a head's run of rows of
    /// another tensor, whose full names these are.
    pub(crate) const fn of_heads(mut self, gguf: &'static str, hf: &'static str, last: bool) -> Self {
        self.fused = Some(Fused { gguf, hf, run: Run::Head { last }, turned: false });
        self
    }
    /// Hugging Face directories hold it as each `count`th row of the matrices of another tensor, or as each `count`th number of its
    /// vectors, from `index` on. `hf` is the full name.
    pub(crate) const fn of_turns(mut self, hf: &'static str, index: usize, count: usize) -> Self {
        self.fused = Some(Fused { gguf: "", hf, run: Run::Turns { index, count }, turned: false });
        self
    }
    /// The other tensor that it is a part of has one row for each number of the input, where it is not quantized.
    pub(crate) const fn turned(mut self) -> Self {
        if let Some(fused) = &mut self.fused {
            fused.turned = true;
        }
        self
    }
    /// It follows from the settings, so that checkpoints need not hold it, and GGUF files do not.
    pub(crate) const fn made(mut self, made: Made) -> Self {
        self.made = Some(made);
        self
    }
    /// Whether it follows from the settings.
    pub(crate) const fn is_made(&self) -> bool {
        self.made.is_some()
    }
    /// GGUF files store rows or columns in another order.
    pub(crate) const fn ordered(mut self, order: fn(&Settings<'_>) -> Result<Order>) -> Self {
        self.order = Some(order);
        self
    }
    /// Whether a Hugging Face directory has matrices with their inputs as rows.
    pub(crate) const fn is_transposed(&self) -> bool {
        self.transposed
    }
    /// The order that GGUF files have.
    pub(crate) fn order(&self, settings: &Settings<'_>) -> Result<Option<Order>> {
        self.order.map(|order| order(settings)).transpose()
    }
}

/// Tensors that no computation needs, whatever the architecture: `*` stands for anything.
const IGNORED: &[&str] = &["*.rotary_emb.inv_freq", "rope_freqs.weight", "rope_factors_*.weight"];

/// Parts of checkpoints that also see or hear, whose text model has its settings in `text_config`.
const BESIDE_TEXT: &[&str] = &[
    "model.visual.*",
    "visual.*",
    "vision_tower.*",
    "model.vision_tower.*",
    "vision_model.*",
    "model.vision_model.*",
    "model.connector.*",
    "model.image_newline",
    "image_newline",
    "multi_modal_projector.*",
    "model.multi_modal_projector.*",
];

/// The output matrix in the plan.
const OUTPUT: &str = "output.weight";

/// Ways to write `model.`, which stands for what architectures call all but the output matrix, and what stands outside of it.
const PREFIXES: [(&str, &str); 18] = [
    ("model.", ""),
    ("backbone.", ""),
    ("rwkv.", ""),
    ("transformer.", ""),
    ("gpt_neox.", ""),
    ("model.decoder.", ""),
    ("decoder.", ""),
    ("model.language_model.", ""),
    ("model.text_model.", ""),
    ("language_model.model.", "language_model."),
    ("bert.", ""),
    ("roberta.", ""),
    ("electra.", ""),
    ("distilbert.", ""),
    ("mpnet.", ""),
    ("deberta.", ""),
    ("nomic_bert.", ""),
    ("", ""),
];

/// The same for vision towers, before the names of the table that begin with `model.` and before all others.
const TOWERS: [(&str, &str); 6] = [
    ("model.vision_tower.", "model."),
    ("model.vision_tower.vision_model.", "model."),
    ("vision_tower.", ""),
    ("vision_tower.vision_model.", ""),
    ("model.vision_model.", "model."),
    ("vision_model.", ""),
];

/// What checkpoints that were made in TensorFlow call the parameters of a norm (BERT).
const NORM_SUFFIXES: [(&str, &str); 2] = [(".weight", ".gamma"), (".bias", ".beta")];

/// Finds weights in a checkpoint.
pub(crate) struct Names<'a> {
    checkpoint: &'a Checkpoint,
    arch: &'static Arch,
    prefix: (&'static str, &'static str),
    /// What stands before most names in GGUF files: `v.` in those of vision towers.
    gguf_prefix: &'static str,
    tied: Option<bool>,
}

impl<'a> Names<'a> {
    /// `tied` is whether the output is the embedding table, where the checkpoint says so.
    pub(crate) fn new(checkpoint: &'a Checkpoint, arch: &'static Arch, tied: Option<bool>) -> Self {
        let mut names = Self { checkpoint, arch, prefix: PREFIXES[0], gguf_prefix: "", tied };
        let fits = |prefix| {
            let probe = Self { prefix, ..Names { ..names } };
            probe.rows("token_embd.weight").is_some()
        };
        if let Some(prefix) = PREFIXES.into_iter().find(|p| fits(*p)) {
            names.prefix = prefix;
        }
        names
    }

    /// Of a vision tower, which stands beside a text model or in a file of its own. `probe` is a weight that every tower has.
    pub(crate) fn tower(checkpoint: &'a Checkpoint, arch: &'static Arch, probe: &str) -> Self {
        let with = |prefix| Self { checkpoint, arch, prefix, gguf_prefix: "v.", tied: None };
        TOWERS.into_iter().map(with).find(|names| names.rows(probe).is_some()).unwrap_or_else(|| with(TOWERS[0]))
    }

    /// A plan's name as GGUF files write it.
    pub(crate) fn gguf_name(&self, name: &str) -> String {
        let within =
            |part: &str| name.split_once(part).map(|(layer, rest)| format!("v.{}.{}.{rest}", &part[1..part.len() - 1], &layer[4..]));
        match self.gguf_prefix {
            "" => name.to_string(),
            // Of projectors, and of what belongs to a layer of the tower and stands outside of it.
            _ if name.starts_with("mm.") || name.starts_with("model.") => name.to_string(),
            prefix => within(".deepstack_").unwrap_or_else(|| format!("{prefix}{name}")),
        }
    }

    /// The table's entry for a plan's name, its layer, and what follows the module's name.
    pub(crate) fn entry<'n>(&self, name: &'n str) -> Option<(&'static Entry, &'n str, &'n str)> {
        let (pattern, layer) = split_layer(name);
        let module = |e: &&Entry| pattern.strip_prefix(e.gguf).is_some_and(|suffix| [".weight", ".bias"].contains(&suffix));
        let entries = || self.arch.tensors.iter().copied().flatten();
        if let Some(entry) = entries().find(|e| e.gguf == pattern) {
            return Some((entry, layer, ""));
        }
        entries().find(module).map(|e| (e, layer, if pattern.ends_with(".bias") { ".bias" } else { ".weight" }))
    }

    /// A name of the table as the checkpoint writes it.
    fn hf(&self, name: &str, layer: &str) -> String {
        let name = match name.strip_prefix("model.") {
            Some(rest) => format!("{}{rest}", self.prefix.0),
            None => format!("{}{name}", self.prefix.1),
        };
        name.replace("{}", layer)
    }

    /// The name of a module's tensor that the checkpoint has; the first where it has none.
    fn hf_name(&self, entry: &Entry, layer: &str, suffix: &str) -> String {
        let first = self.hf(entry.hf, layer);
        let old = NORM_SUFFIXES.iter().find(|(new, _)| *new == suffix).map(|(_, old)| first.clone() + old);
        let first = first + suffix;
        let others =
            || entry.other.map(|hf| self.hf(hf, layer) + suffix).into_iter().chain(old).find(|n| self.checkpoint.tensor(n).is_some());
        if self.checkpoint.tensor(&first).is_some() { first } else { others().unwrap_or(first) }
    }

    /// Rows of the tensor behind a plan's name.
    pub(crate) fn rows(&self, name: &str) -> Option<usize> {
        match self.checkpoint.source {
            Source::Gguf => self.checkpoint.tensor(&self.gguf_name(name)).map(Tensor::rows),
            Source::HuggingFace => {
                let (entry, layer, suffix) = self.entry(name)?;
                let whole = || self.checkpoint.tensor(&self.hf(entry.fused?.hf, layer));
                self.checkpoint.tensor(&self.hf_name(entry, layer, suffix)).or_else(whole).map(Tensor::rows)
            }
        }
    }

    /// The rows that make a weight, and what loading does to them.
    fn parts(&self, name: &str, shape: &[usize]) -> onebit_plan::Result<(Option<Vec<Part>>, Edit)> {
        let gguf = self.checkpoint.source == Source::Gguf;
        let Some((entry, layer, suffix)) = self.entry(name) else {
            return match gguf {
                // A form that only GGUF files have: they use the plan's names.
                true => Ok((self.checkpoint.tensor(&self.gguf_name(name)).map(|t| vec![whole(t)]), Edit::None)),
                false => Err(onebit_plan::Error::invalid(format!("the architecture's table of tensors has no `{name}`"))),
            };
        };
        let file_name = if gguf { self.gguf_name(entry.gguf_name(name)) } else { self.hf_name(entry, layer, suffix) };
        let parts = match file_name.contains("{e}") {
            true => self.expert_parts(&file_name, shape.first().copied().unwrap_or(0)),
            false => {
                let rest = entry.then.iter().filter(|_| !gguf).map(|hf| self.hf(hf, layer) + suffix);
                std::iter::once(file_name).chain(rest).map(|name| self.checkpoint.tensor(&name).map(whole)).collect()
            }
        };
        let parts = match (parts, entry.fused) {
            (None, Some(fused)) if suffix != ".bias" => {
                self.fused_parts(&fused, if gguf { fused.gguf.replace("{}", layer) } else { self.hf(fused.hf, layer) }, shape)?
            }
            (parts, _) => parts,
        };
        let parts = match (parts, entry.made) {
            (None, Some(made)) => Some(vec![self.made(made, name, layer, shape)?]),
            (parts, _) => parts,
        };
        let as_is = gguf || suffix == ".bias";
        let parts = match (parts, shape) {
            (Some(parts), [matrices @ .., _, _]) if entry.transposed && (!as_is || (gguf && !self.gguf_prefix.is_empty())) => {
                Some(transposed(parts, matrices.iter().product()))
            }
            (parts, _) => parts,
        };
        Ok((parts, if as_is { Edit::None } else { entry.edit }))
    }

    /// A table that follows from the settings.
    fn made(&self, made: Made, name: &str, layer: &str, shape: &[usize]) -> onebit_plan::Result<Part> {
        let invalid = |error: Error| onebit_plan::Error::invalid(format!("`{name}` cannot be made: {error}"));
        let settings = Settings::new(self.checkpoint, self.arch).map_err(invalid)?;
        let values = made(&settings, layer.parse().unwrap_or(0), shape).map_err(invalid)?;
        let beside = self.checkpoint.tensors.values().next().cloned();
        let beside = beside.ok_or_else(|| onebit_plan::Error::Missing(name.into()))?;
        let table = Table { values, columns: shape.last().copied().unwrap_or(1), beside: [beside] };
        Ok(whole(&Tensor::made(name.into(), F32, shape.to_vec(), Arc::new(table))))
    }

    /// One tensor for each expert; none where there is not even the first.
    fn expert_parts(&self, hf: &str, experts: usize) -> Option<Vec<Part>> {
        let find = |e: usize| self.checkpoint.tensor(&hf.replace("{e}", &e.to_string()));
        find(0)?;
        // Those that are missing, or too many, show as a wrong number of rows.
        Some((0..experts).map_while(find).map(whole).collect())
    }

    /// Rows of one tensor for a weight of this shape.
    fn fused_parts(&self, fused: &Fused, name: String, shape: &[usize]) -> onebit_plan::Result<Option<Vec<Part>>> {
        let Some(tensor) = self.checkpoint.tensor(&name) else { return Ok(None) };
        let plain = self.checkpoint.source == Source::HuggingFace && tensor.scheme().is_none();
        let matrices = tensor.shape().iter().rev().skip(2).product();
        let turned = if fused.turned && plain { tensor.transposed(matrices) } else { None };
        let tensor = turned.as_ref().unwrap_or(tensor);
        let (index, count) = match fused.run {
            Run::Part { index, count } => (index, count),
            Run::Head { last } => return head_parts(tensor, shape, last).map(Some),
            Run::Turns { index, count } => {
                let seen = if shape.len() > 2 { tensor.every_row(index, count) } else { tensor.every_column(index, count) };
                let text = || format!("tensor `{}` has shape {:?}, which does not come in turns of {count}", tensor.name(), tensor.shape());
                return seen.map(|t| Some(vec![whole(&t)])).ok_or_else(|| onebit_plan::Error::invalid(text()));
            }
        };
        let [matrices @ .., rows, _] = tensor.shape() else {
            return Err(onebit_plan::Error::invalid(format!("tensor `{}` should hold matrices", tensor.name())));
        };
        if !rows.is_multiple_of(count) {
            let text = format!("tensor `{}` has {rows} rows, which are not {count} equal parts", tensor.name());
            return Err(onebit_plan::Error::invalid(text));
        }
        let run = rows / count;
        let part = |m: usize| {
            let start = m * rows + index * run;
            Part { tensor: tensor.clone(), rows: start..start + run }
        };
        Ok(Some((0..matrices.iter().product()).map(part).collect()))
    }

    /// The entry of the table that a tensor of the checkpoint goes by, whatever its shape.
    pub(crate) fn entry_of(&self, tensor: &str) -> Option<&'static Entry> {
        let suffixes = NORM_SUFFIXES.iter().flat_map(|(new, old)| [new, old]);
        let module = { suffixes }.find_map(|suffix| tensor.strip_suffix(suffix)).unwrap_or(tensor);
        let named = |pattern: &str| !pattern.is_empty() && (numbered(pattern, tensor) || numbered(pattern, module));
        let fits = |entry: &&Entry| match self.checkpoint.source {
            Source::Gguf => {
                let renamed = entry.renamed.is_some_and(|name| name == tensor);
                let bare = entry.bare && named(entry.gguf.trim_end_matches(".bias"));
                renamed || bare || named(entry.gguf) || entry.fused.is_some_and(|fused| named(fused.gguf))
            }
            Source::HuggingFace => {
                let fused = entry.fused.map(|fused| fused.hf);
                [entry.hf].into_iter().chain(entry.other).chain(entry.then.iter().copied()).chain(fused).any(|hf| named(&self.hf(hf, "{}")))
            }
        };
        self.arch.tensors.iter().copied().flatten().find(fits)
    }

    /// Whether a tensor belongs to a vision tower of these names, and not to the text model beside it or to a layer from `idle` on.
    pub(crate) fn is_of_tower(&self, tensor: &str, idle: usize) -> bool {
        let modules = || {
            let first = self.arch.tensors.iter().copied().flatten().filter_map(|e| e.hf.split('.').next());
            first.filter(|module| !["", "model"].contains(module))
        };
        if layer_of(tensor.trim_start_matches("v.")).is_some_and(|layer| layer >= idle) {
            return false;
        }
        match self.checkpoint.source {
            Source::Gguf => !tensor.starts_with("a.") && !tensor.starts_with("mm.a.") && !matches_any(self.arch.ignored.iter(), tensor),
            Source::HuggingFace => {
                let name = tensor.strip_prefix(self.prefix.1).unwrap_or(tensor);
                let inside = tensor.starts_with(self.prefix.0) || modules().any(|m| name.split('.').next() == Some(m));
                inside && !matches_any(IGNORED.iter().chain(self.arch.ignored), tensor)
            }
        }
    }

    /// Why the plan has no use for a tensor, as its name tells; `None` where it should have.
    pub(crate) fn unused(&self, tensor: &str) -> Option<&'static str> {
        let any = |patterns: &[&str]| matches_any(patterns.iter(), tensor);
        if self.checkpoint.config.contains_key("text_config") && any(BESIDE_TEXT) {
            return Some("of a part that sees or hears");
        }
        let output = || self.entry(OUTPUT).map(|(entry, ..)| self.hf(entry.hf, "") + ".weight").unwrap_or_default();
        if self.tied == Some(true) && tensor == output() {
            return Some("the output matrix is the embedding table");
        }
        (any(IGNORED) || any(self.arch.ignored)).then_some("no op multiplies with it")
    }

    /// Why a plan that leaves out the layers `idle`, and experts from `spare` on, has no use for a tensor.
    pub(crate) fn left_out(&self, tensor: &str, idle: &Range<usize>, spare: Option<usize>) -> Option<&'static str> {
        if layer_of(tensor).is_some_and(|layer| idle.contains(&layer)) {
            return Some("of a layer that only predicts further tokens");
        }
        let expert = || number_after(tensor, "experts.");
        if spare.is_some_and(|first| expert().is_some_and(|expert| expert >= first)) {
            return Some("of an expert that is never chosen");
        }
        self.unused(tensor)
    }

    /// An error with the checkpoint's own names.
    pub(crate) fn in_file_terms(&self, error: onebit_plan::Error) -> onebit_plan::Error {
        match error {
            onebit_plan::Error::Missing(name) if self.checkpoint.source == Source::HuggingFace => match self.entry(&name) {
                Some((entry, layer, suffix)) => onebit_plan::Error::Missing(match (entry.hf, entry.fused) {
                    ("", Some(fused)) => self.hf(fused.hf, layer),
                    (hf, _) => self.hf(hf, layer) + suffix,
                }),
                None => onebit_plan::Error::Missing(name),
            },
            other => other,
        }
    }

    /// Checks that the output matrix is there, where the checkpoint says that it is not the embedding table.
    pub(crate) fn output_found(&self, model: &Model) -> onebit_plan::Result<()> {
        let missing = self.tied == Some(false) && !model.plan.gives_hidden() && !model.plan.weights.iter().any(|w| w.name == OUTPUT);
        if missing { Err(onebit_plan::Error::Missing(OUTPUT.into())) } else { Ok(()) }
    }

    /// Checks that every tensor of the checkpoint is used by `model`, belongs to one of the `idle` layers or to an expert from `spare` on,
    /// or can be ignored.
    pub(crate) fn all_explained(&self, arch: &str, model: &Model, idle: Range<usize>, spare: Option<usize>) -> Result<()> {
        let used: HashSet<&str> = model.weights.iter().flat_map(|w| &w.parts).map(|p| p.tensor.name()).collect();
        let ignored = |name: &str| self.left_out(name, &idle, spare).is_some();
        let left: Vec<&str> = self.checkpoint.tensors.keys().map(String::as_str).filter(|n| !used.contains(n) && !ignored(n)).collect();
        if left.is_empty() {
            return Ok(());
        }
        let mut tensors = left.iter().take(8).copied().collect::<Vec<_>>().join(", ");
        if left.len() > 8 {
            tensors.push_str(", ...");
        }
        Err(Error::Unexplained { path: self.checkpoint.path.clone(), name: arch.into(), count: left.len(), tensors })
    }
}

impl Resolve for Names<'_> {
    fn resolve(&self, name: &str, shape: &[usize]) -> onebit_plan::Result<Option<Weight>> {
        if name == OUTPUT && self.tied == Some(true) {
            return Ok(None);
        }
        let (parts, edit) = self.parts(name, shape)?;
        let Some(parts) = parts else { return Ok(None) };
        let mut weight = Weight::join(name, parts, shape.to_vec(), edit)?;
        weight.rounds_input |= self.checkpoint.source == Source::Gguf && bitnet::rounds_input(self.arch, name, weight.ty);
        Ok(Some(weight))
    }
}

/// A table whose numbers follow from the settings.
#[derive(Debug)]
struct Table {
    values: Vec<f32>,
    columns: usize,
    /// A tensor of the checkpoint that it belongs to.
    beside: [Tensor; 1],
}

impl Rows for Table {
    fn row(&self, row: usize, out: &mut [u8]) {
        let values = self.values.iter().skip(row * self.columns);
        out.chunks_exact_mut(size_of::<f32>()).zip(values).for_each(|(out, value)| out.copy_from_slice(&value.to_le_bytes()));
    }
    fn stored(&self) -> &[Tensor] {
        &self.beside
    }
    fn scheme(&self) -> &str {
        "made from the settings"
    }
}

/// The transposes of so many matrices of one tensor; as they are where that is not possible, for their shape to be found wrong.
fn transposed(parts: Vec<Part>, matrices: usize) -> Vec<Part> {
    match parts.first().and_then(|p| p.tensor.transposed(matrices)) {
        Some(tensor) => vec![whole(&tensor)],
        None => parts,
    }
}

/// All rows of a tensor.
fn whole(tensor: &Tensor) -> Part {
    Part { rows: 0..tensor.rows(), tensor: tensor.clone() }
}

/// The first or the last rows of each head's run of rows of a matrix, for a weight `[heads, rows, columns]`.
fn head_parts(tensor: &Tensor, shape: &[usize], last: bool) -> onebit_plan::Result<Vec<Part>> {
    let (heads, rows, all) = match (shape, tensor.shape()) {
        ([heads, rows, _], [all, _]) => (heads, rows, all),
        // All heads together.
        ([rows, _], [all, _]) => (&1, rows, all),
        _ => return Err(onebit_plan::Error::invalid(format!("tensor `{}` should be a matrix", tensor.name()))),
    };
    if !all.is_multiple_of(*heads) || all / heads < *rows {
        let text = format!("tensor `{}` has {all} rows, which are not {rows} or more for each of {heads} heads", tensor.name());
        return Err(onebit_plan::Error::invalid(text));
    }
    let run = all / heads;
    let start = |head: usize| head * run + if last { run - rows } else { 0 };
    Ok((0..*heads).map(|head| Part { tensor: tensor.clone(), rows: start(head)..start(head) + rows }).collect())
}

/// `enc.blk.3.attn_q.weight` as `enc.`, `3` and `attn_q.weight`; `None` for what belongs to no layer.
pub(crate) fn layer_parts(name: &str) -> Option<(&str, &str, &str)> {
    let part = ["enc.", "dec."].into_iter().find(|part| name.starts_with(part)).unwrap_or_default();
    let (layer, rest) = name[part.len()..].strip_prefix("blk.")?.split_once('.')?;
    Some((part, layer, rest))
}

/// `blk.3.attn_q.weight` as `blk.{}.attn_q.weight` and `3`.
fn split_layer(name: &str) -> (String, &str) {
    match layer_parts(name) {
        Some((part, layer, rest)) => (format!("{part}blk.{{}}.{rest}"), layer),
        None => (name.to_string(), ""),
    }
}

/// The layer that a tensor of the checkpoint belongs to.
fn layer_of(name: &str) -> Option<usize> {
    if name.starts_with("blk.") { number_after(name, "blk.") } else { number_after(name, "layers.") }
}

/// The number that stands behind `before` in a name.
fn number_after(name: &str, before: &str) -> Option<usize> {
    name.split_once(before)?.1.split_once('.')?.0.parse().ok()
}

/// Whether `name` fits one of the patterns.
fn matches_any<'p, 'n: 'p>(mut patterns: impl Iterator<Item = &'p &'n str>, name: &str) -> bool {
    patterns.any(|pattern| matches(pattern, name))
}

/// Whether `name` fits `pattern`, in which `{}` and `{e}` stand for numbers.
fn numbered(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('{') else { return pattern == name };
    let (Some(name), Some((_, rest))) = (name.strip_prefix(start), rest.split_once('}')) else { return false };
    let digits = name.bytes().take_while(u8::is_ascii_digit).count();
    digits > 0 && numbered(rest, &name[digits..])
}

/// Whether `name` fits `pattern`, in which `*` stands for anything.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(name) = name.strip_prefix(start) else { return false };
    (0..=name.len()).filter(|i| name.is_char_boundary(*i)).any(|i| matches(rest, &name[i..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        assert!(matches("mtp.*", "mtp.layers.0.weight") && !matches("mtp.*", "model.mtp.x"));
        assert!(matches("*.inv_freq", "a.inv_freq") && !matches("*.inv_freq", "inv_freq"));
        assert!(matches("a.*.c.*", "a.b.c.d") && !matches("a.*.c.*", "a.b.d.c"));
        assert!(numbered("a.{}.b.{e}.c", "a.12.b.0.c") && !numbered("a.{}.b", "a..b") && !numbered("a.{}", "a.1.b"));
        assert!(matches("exact", "exact") && !matches("exact", "exactly"));
        assert_eq!(split_layer("blk.12.ssm_a"), ("blk.{}.ssm_a".into(), "12"));
        assert_eq!(split_layer("dec.blk.12.attn_o.bias"), ("dec.blk.{}.attn_o.bias".into(), "12"));
        assert_eq!(split_layer("output.weight"), ("output.weight".into(), ""));
        assert_eq!(["blk.7.x", "model.layers.61.mlp.x", "layers.2.x", "norm.weight"].map(layer_of), [Some(7), Some(61), Some(2), None]);
    }
}
