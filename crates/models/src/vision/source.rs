//! What a tower is read from: settings of its own and of its pictures, and tensors.

use crate::{
    Error, Result,
    arch::Arch,
    names::Names,
    settings::{FUNCTIONS, Settings, function, short},
};
use onebit_formats::{Checkpoint, Meta};
use onebit_plan::{Function, Graph, Model, Resolve, Value, Weight};
use onebit_vision::{Filter, Normalize};
use serde_json::{Map, Value as Json};
use std::{
    cell::{Cell, RefCell},
    collections::HashSet,
    path::PathBuf,
};

/// Where a tower comes from.
pub(crate) struct Source<'a> {
    /// Of the tower: `vision_config`.
    pub(crate) settings: Settings<'a>,
    /// Of the whole model, around those of its parts.
    pub(crate) outer: Settings<'a>,
    /// Of the text model.
    pub(super) text: Settings<'a>,
    pub(crate) pictures: Pictures,
    pub(crate) names: Names<'a>,
    pub(crate) checkpoint: &'a Checkpoint,
    pub(crate) arch: &'static Arch,
    /// Whether GGUF files have queries, keys and values apart.
    pub(crate) apart: bool,
    /// Weights that were read outside of plans.
    read: RefCell<Vec<Weight>>,
    /// Which layer's features each of the mergers takes that directories name by their order.
    mergers: RefCell<Vec<usize>>,
    /// The first layer that is left out.
    idle: Cell<usize>,
}

impl<'a> Source<'a> {
    /// `checkpoint` holds the tower of the text model in `text`, or is the same.
    pub(super) fn new(text: &'a Checkpoint, checkpoint: &'a Checkpoint, arch: &'static Arch, apart: bool) -> Result<Self> {
        let settings = Settings::part(checkpoint, arch, "vision_config")?;
        let (outer, text_settings) = (Settings::whole(checkpoint, arch), Settings::new(text, arch)?);
        let names = Names::tower(checkpoint, arch, PROBE);
        let pictures = Pictures::open(text, &settings)?;
        let (read, mergers, idle) = (RefCell::default(), RefCell::default(), Cell::new(usize::MAX));
        Ok(Self { pictures, settings, outer, text: text_settings, names, checkpoint, arch, apart, read, mergers, idle })
    }

    /// A plan whose rows of output are `width` wide, for up to `rows` rows.
    pub(super) fn plan(&self, part: &str, width: usize, rows: usize, build: impl FnOnce(&mut Graph<'_>) -> Value) -> Result<Model> {
        let name = format!("{} {part}", self.arch.hf.first().copied().unwrap_or_default());
        let mut graph = Graph::new(&name, width, rows, &self.names);
        let out = build(&mut graph);
        let out = graph.select(out);
        let failed = |source| Error::Plan { path: self.checkpoint.path.clone(), source: self.names.in_file_terms(source) };
        graph.finish(out).map_err(failed)
    }

    /// The numbers of a small tensor, where the checkpoint has it.
    pub(super) fn numbers(&self, name: &str, shape: &[usize]) -> Result<Option<Vec<f32>>> {
        let failed = |source| Error::Plan { path: self.checkpoint.path.clone(), source: self.names.in_file_terms(source) };
        let weight = self.names.resolve(name, shape).map_err(failed)?;
        Ok(weight.map(|weight| {
            let numbers = weight.to_f32();
            self.read.borrow_mut().push(weight);
            numbers
        }))
    }

    /// The same, which must be there.
    pub(super) fn needed(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        self.numbers(name, shape)?.ok_or_else(|| {
            let source = self.names.in_file_terms(onebit_plan::Error::Missing(name.into()));
            Error::Plan { path: self.checkpoint.path.clone(), source }
        })
    }

    /// Rows of a weight.
    pub(super) fn rows(&self, name: &str) -> Option<usize> {
        self.names.rows(name)
    }

    /// The weights that were read outside of plans.
    pub(crate) fn read(&self) -> Vec<Weight> {
        self.read.borrow().clone()
    }

    /// Notes which layers' features the mergers take, in the order that directories have them in.
    pub(super) fn note_mergers(&self, layers: &[usize]) {
        *self.mergers.borrow_mut() = layers.to_vec();
    }

    /// A weight of the plans as GGUF files call it, which name mergers by their layers.
    pub(crate) fn gguf_name(&self, name: &str) -> String {
        let merger = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')).filter(|(_, rest)| rest.starts_with("deepstack_"));
        let layer = merger.and_then(|(i, rest)| Some((*self.mergers.borrow().get(i.parse::<usize>().ok()?)?, rest)));
        let name = layer.map_or_else(|| name.to_string(), |(layer, rest)| format!("blk.{layer}.{rest}"));
        self.names.gguf_name(&name)
    }

    /// How many tensors the checkpoint has.
    pub(super) fn tensors(&self) -> usize {
        self.checkpoint.tensors.len()
    }

    /// Leaves out layers, as features are taken before them.
    pub(super) fn leave_out_layers_from(&self, layer: usize) {
        self.idle.set(layer);
    }

    /// The activation, which GGUF files tell by two truth values.
    pub(super) fn activation(&self, hf: &str, usual: &str) -> Result<Function> {
        const KEYS: [&str; 2] = ["clip.use_gelu", "clip.use_silu"];
        let t = &self.settings;
        let told = |[gelu, silu]: [bool; 2]| match (gelu, silu) {
            (true, _) if usual == "gelu" => Function::Gelu,
            (true, _) => Function::GeluTanh,
            (false, true) => Function::Silu,
            (false, false) => Function::QuickGelu,
        };
        if t.is_gguf() {
            let says = |key: &str| Ok::<_, Error>(t.checkpoint.metadata.bool(key)?.unwrap_or(false));
            return Ok(told([says(KEYS[0])?, says(KEYS[1])?]));
        }
        let name = t.text_or(hf, "", usual)?;
        let f = function(&name).ok_or_else(|| t.wrong(hf, "", format!("is `{name}`, which is not known; known are {FUNCTIONS}")))?;
        let says = [matches!(f, Function::Gelu | Function::GeluTanh), f == Function::Silu];
        KEYS.into_iter().zip(says).for_each(|(key, says)| t.note_global(key, Meta::Bool(says)));
        t.hf_only(told(says) != f, &format!("its activation is `{name}`, which GGUF files of towers like it cannot tell from another"));
        Ok(f)
    }

    /// A length in pixels, of which some checkpoints state height and width.
    pub(super) fn side(&self, hf: &str, gguf: &str, usual: usize) -> Result<usize> {
        let t = &self.settings;
        let side = match t.json(hf).and_then(Json::as_array).map(Vec::as_slice) {
            Some([height, width]) if height == width => height.as_u64().and_then(|n| usize::try_from(n).ok()),
            Some(_) => None,
            None => Some(t.size_or(hf, gguf, usual)?),
        };
        side.into_iter().for_each(|side| t.note(gguf, Meta::Unsigned(side as u64)));
        side.filter(|n| (1..=1 << 14).contains(n)).ok_or_else(|| t.wrong(hf, gguf, "should be one length in pixels, up to 16384"))
    }

    /// Checks that both plans together use every tensor of the tower that was not read.
    pub(super) fn all_explained(&self, models: &[&Model]) -> Result<()> {
        let read = self.read.borrow();
        let weights = models.iter().flat_map(|m| &m.weights).chain(read.iter());
        let used: HashSet<&str> = weights.flat_map(|w| &w.parts).map(|p| p.tensor.name()).collect();
        let tensors = self.checkpoint.tensors.keys().map(String::as_str);
        let left: Vec<&str> = tensors.filter(|name| !used.contains(name) && self.names.is_of_tower(name, self.idle.get())).collect();
        if left.is_empty() {
            return Ok(());
        }
        let name = self.arch.hf.first().copied().unwrap_or_default().into();
        let tensors = left.iter().take(8).copied().collect::<Vec<_>>().join(", ");
        Err(Error::Unexplained { path: self.checkpoint.path.clone(), name, count: left.len(), tensors })
    }
}

/// A weight that every tower has.
const PROBE: &str = "patch_embd.weight";

/// How pictures are prepared: `preprocessor_config.json` or the `image_processor` of `processor_config.json`; or metadata of a GGUF file.
pub(crate) struct Pictures {
    path: PathBuf,
    config: Map<String, Json>,
    /// What metadata says: mean and deviation.
    colours: Option<[[f64; 3]; 2]>,
    /// Mean and deviation as they were read, for metadata.
    noted_colours: Cell<Option<[[f64; 3]; 2]>>,
    /// What metadata has no way to say.
    unsaid: RefCell<Vec<String>>,
}

impl Pictures {
    fn new(path: PathBuf, config: Map<String, Json>, colours: Option<[[f64; 3]; 2]>) -> Self {
        Self { path, config, colours, noted_colours: Cell::default(), unsaid: RefCell::default() }
    }

    /// Notes what metadata would hold: mean and deviation.
    pub(super) fn note_colours(&self, mean: [f64; 3], deviation: [f64; 3]) {
        self.noted_colours.set(Some([mean, deviation]));
    }

    /// What was so noted.
    pub(crate) fn noted_colours(&self) -> Option<[[f64; 3]; 2]> {
        self.noted_colours.get()
    }

    /// Notes that metadata has no way to say `what`, where `so`.
    pub(super) fn note_unsaid(&self, so: bool, what: &str) {
        if so {
            self.unsaid.borrow_mut().push(what.into());
        }
    }

    /// What was so noted.
    pub(crate) fn unsaid(&self) -> Vec<String> {
        self.unsaid.borrow().clone()
    }

    fn open(text: &Checkpoint, tower: &Settings<'_>) -> Result<Self> {
        if tower.is_gguf() {
            let three = |key: &str| -> Result<Option<[f64; 3]>> {
                let floats = tower.checkpoint.metadata.floats(key)?;
                floats.map(|list| <[f32; 3]>::try_from(list).map(|list| list.map(f64::from))).transpose().map_err(|_| Error::Setting {
                    path: tower.checkpoint.path.clone(),
                    key: key.into(),
                    what: "should be three numbers".into(),
                })
            };
            let colours = three("clip.vision.image_mean")?.zip(three("clip.vision.image_std")?).map(|(mean, std)| [mean, std]);
            return Ok(Self::new(tower.checkpoint.path.clone(), Map::new(), colours));
        }
        let folder = if text.path.is_dir() { text.path.clone() } else { text.path.parent().map(Into::into).unwrap_or_default() };
        for (file, part) in [("preprocessor_config.json", None), ("processor_config.json", Some("image_processor"))] {
            let Some(content) = text.sidecar(file)? else { continue };
            let path = folder.join(file);
            let wrong = |key: &str, what: String| Error::Setting { path: path.clone(), key: key.into(), what };
            let parsed: Json = serde_json::from_str(&content).map_err(|error| wrong("{}", format!("is not JSON: {error}")))?;
            let config = match part {
                None => Some(parsed),
                Some(part) => parsed.get(part).cloned(),
            };
            match config {
                Some(Json::Object(config)) => return Ok(Self::new(path, config, None)),
                Some(other) => return Err(wrong(part.unwrap_or("{}"), format!("should be an object, but is {}", short(&other)))),
                None => {}
            }
        }
        let what = "is missing: it tells how images are prepared".into();
        Err(Error::Setting { path: folder, key: "preprocessor_config.json".into(), what })
    }

    /// An error about a setting.
    pub(super) fn wrong(&self, key: &str, what: impl Into<String>) -> Error {
        Error::Setting { path: self.path.clone(), key: key.into(), what: what.into() }
    }

    /// A value; `a.b` is `b` of the object `a`, and `a|b` are two names for one thing.
    pub(super) fn json(&self, key: &str) -> Option<&Json> {
        let at = |path: &str| {
            let mut steps = path.split('.');
            let first = self.config.get(steps.next()?)?;
            steps.try_fold(first, |value, step| value.get(step))
        };
        key.split('|').filter_map(at).find(|value| !value.is_null())
    }

    /// A count from 1 to `largest`.
    pub(super) fn size(&self, key: &str, largest: usize) -> Result<Option<usize>> {
        let Some(value) = self.json(key) else { return Ok(None) };
        let size = value.as_u64().and_then(|n| usize::try_from(n).ok()).filter(|n| (1..=largest).contains(n));
        size.map(Some).ok_or_else(|| self.wrong(key, format!("is {}; a whole number from 1 to {largest} is needed", short(value))))
    }

    /// Whether the class that prepares pictures has this word in its name.
    pub(super) fn is_of(&self, word: &str) -> bool {
        self.json("image_processor_type").and_then(Json::as_str).is_some_and(|name| name.contains(word))
    }

    /// Checks that sizes, which may be one length or `height` and `width`, are squares of this side where they are stated.
    pub(super) fn squares(&self, keys: &[&str], side: usize) -> Result<()> {
        for key in keys {
            let stated = |value: &Json| match value {
                Json::Object(parts) => ["height", "width"].iter().filter_map(|part| parts.get(*part)).map(Json::as_u64).collect(),
                one => vec![one.as_u64()],
            };
            let fits = self.json(key).is_none_or(|value| stated(value).iter().all(|n| *n == Some(side as u64)));
            if !fits {
                let found = self.json(key).map(short).unwrap_or_default();
                return Err(self.wrong(key, format!("is {found}, but the tower takes squares of {side}")));
            }
        }
        Ok(())
    }

    /// A number above 0.
    pub(super) fn number(&self, key: &str) -> Result<Option<f64>> {
        let Some(value) = self.json(key) else { return Ok(None) };
        let number = value.as_f64().filter(|x| x.is_finite() && *x > 0.0);
        number.map(Some).ok_or_else(|| self.wrong(key, format!("is {}; a number above 0 is needed", short(value))))
    }

    /// A truth value.
    pub(super) fn flag(&self, key: &str, default: bool) -> Result<bool> {
        match self.json(key) {
            None => Ok(default),
            Some(value) => value.as_bool().ok_or_else(|| self.wrong(key, format!("should be true or false, but is {}", short(value)))),
        }
    }

    /// How pixels become numbers; the `usual` mean and deviation where the file does not say.
    pub(super) fn normalize(&self, usual: [[f64; 3]; 2]) -> Result<Normalize> {
        let three = |key: &str, default: [f64; 3]| -> Result<[f64; 3]> {
            let Some(value) = self.json(key) else { return Ok(default) };
            let one = |value: &Json| value.as_f64().filter(|x| x.is_finite());
            let list = match value.as_array() {
                Some(list) => list.iter().map(one).collect::<Option<Vec<f64>>>(),
                None => one(value).map(|x| vec![x; 3]),
            };
            let three = list.and_then(|list| <[f64; 3]>::try_from(list).ok());
            three.ok_or_else(|| self.wrong(key, format!("should be three numbers, but is {}", short(value))))
        };
        if !self.flag("do_resize", true)? {
            return Err(self.wrong("do_resize", "is false, which is not supported"));
        }
        let [mean, deviation] = self.colours.unwrap_or(usual);
        let (mean, deviation) = match self.flag("do_normalize", true)? {
            true => (three("image_mean", mean)?, three("image_std", deviation)?),
            false => ([0.0; 3], [1.0; 3]),
        };
        if deviation.contains(&0.0) {
            return Err(self.wrong("image_std", "has a zero, by which pixels cannot be divided"));
        }
        let scale = match (self.flag("do_rescale", true)?, self.json("rescale_factor")) {
            (false, _) => 1.0,
            (true, None) => 1.0 / 255.0,
            (true, Some(value)) => {
                value.as_f64().ok_or_else(|| self.wrong("rescale_factor", format!("should be a number, but is {}", short(value))))?
            }
        };
        self.note_colours(mean, deviation);
        self.note_unsaid(scale != 1.0 / 255.0, "by which factor pixels are multiplied");
        Ok(Normalize::new(scale, mean, deviation))
    }

    /// How pictures are resampled.
    pub(super) fn filter(&self, default: Filter) -> Result<Filter> {
        let Some(value) = self.json("resample") else { return Ok(default) };
        let filter = value.as_u64().and_then(Filter::from_pillow);
        self.note_unsaid(filter.is_some_and(|filter| filter != default), "how pictures are resampled");
        filter
            .ok_or_else(|| self.wrong("resample", format!("is {}; 1 (Lanczos), 2 (bilinear) and 3 (bicubic) are supported", short(value))))
    }
}

/// CLIP's colours (Radford et al. 2021, arXiv:2103.00020).
pub(super) const CLIP: [[f64; 3]; 2] = [[0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]];

/// Pixels from -1 to 1.
pub(super) const AROUND_ZERO: [[f64; 3]; 2] = [[0.5; 3]; 2];

/// A list of truth values or numbers of layers in metadata.
pub(super) fn layers_of(value: Option<&Meta>) -> Option<Vec<usize>> {
    match value? {
        Meta::Bools(list) => Some((0..list.len()).filter(|i| list[*i]).collect()),
        Meta::Integers(list) => list.iter().map(|n| usize::try_from(*n).ok()).collect(),
        _ => None,
    }
}
