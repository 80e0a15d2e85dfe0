//! A model's settings, from `config.json` or from GGUF metadata.
//!
//! Each read names the key in both: `s.size("hidden_size", "embedding_length")`. GGUF keys come without the architecture's
//! name before them; `a|b` are two names that configurations use for one thing. On a Hugging Face directory every
//! read also notes what a GGUF file of the model would hold, and [`Settings::hf_only`] what it could not: that is all that
//! `convert` needs to know.

use crate::{Error, Result, arch::Arch, defaults, names::layer_parts};
use onebit_formats::{Checkpoint, Meta, Source};
use onebit_plan::Function;
use serde_json::{Map, Value};
use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

/// The largest width, count of heads, and the like. Products of three of them still fit 64 bits.
const LARGEST: usize = 1 << 20;

/// Reads settings.
pub(crate) struct Settings<'a> {
    pub(crate) checkpoint: &'a Checkpoint,
    /// The architecture's names on the Hub.
    pub(crate) family: &'static [&'static str],
    /// The architecture's name in GGUF files, before each key.
    pub(crate) gguf_name: &'static str,
    /// The part of `config.json` that tells of the text model, first; then the whole.
    pub(crate) configs: Vec<&'a Map<String, Value>>,
    /// What its absence from `config.json` means, for settings that published checkpoints leave out.
    defaults: Option<&'static Map<String, Value>>,
    /// The same settings as GGUF would have them, by full key.
    noted: RefCell<BTreeMap<String, Meta>>,
    /// Numbers of 64 bits that GGUF would hold, by full key.
    noted_wide: RefCell<BTreeMap<String, Vec<u64>>>,
    /// Small tensors that a GGUF file would hold and the checkpoint does not.
    noted_tensors: RefCell<BTreeMap<String, ShapedTensor>>,
    /// Factors that the weights in a GGUF file would hold, by the name of the tensor within its layer: one, or one for each row.
    noted_factors: RefCell<BTreeMap<String, Vec<f32>>>,
    /// What GGUF files of the architecture have no way to say.
    unsayable: RefCell<Vec<String>>,
    /// What llama.cpp does not read of the GGUF form, although GGUF files can say it.
    unread: RefCell<Vec<String>>,
    /// Whether GGUF files of the architecture hold the output matrix, even where it is the embedding table.
    own_output: Cell<bool>,
    /// Where the checkpoint holds matrices of experts that have none: from this one on.
    spare_experts: Cell<Option<usize>>,
    /// All keys that were looked for, whether they were there or not.
    looked_for: RefCell<BTreeSet<String>>,
    /// Keys that were not there, and what was taken.
    defaults_taken: RefCell<BTreeMap<String, String>>,
}

/// Dimensions, outermost first, and values.
type ShapedTensor = (Vec<usize>, Vec<f32>);

/// A number that was read, before its range is checked.
type Read<T> = Result<Option<T>>;

impl<'a> Settings<'a> {
    /// # Errors
    /// When something that should hold further settings is none: what it holds would be passed over in silence.
    pub(crate) fn new(checkpoint: &'a Checkpoint, arch: &'static Arch) -> Result<Self> {
        let text = checkpoint.config.get("text_config").and_then(Value::as_object);
        let settings = Self::of(checkpoint, arch, text.into_iter().chain([&checkpoint.config]).collect());
        for key in ["text_config", "rope_parameters", "rope_scaling"] {
            let value = settings.configs.iter().filter_map(|c| c.get(key)).find(|v| !v.is_object() && !v.is_null());
            if let Some(value) = value {
                return Err(settings.wrong(key, key, format!("should be an object, but is {}", short(value))));
            }
        }
        Ok(settings)
    }

    /// Settings of the object `part` of `config.json` alone, or of a GGUF file. What they lack is not looked for elsewhere.
    ///
    /// # Errors
    /// When a directory's `config.json` has no such object.
    pub(crate) fn part(checkpoint: &'a Checkpoint, arch: &'static Arch, part: &str) -> Result<Self> {
        // What text models leave out does not hold for their towers.
        let whole = Self { defaults: None, ..Self::of(checkpoint, arch, vec![]) };
        match checkpoint.config.get(part) {
            _ if whole.is_gguf() => Ok(whole),
            Some(Value::Object(config)) => Ok(Self { configs: vec![config], ..whole }),
            other => {
                let found = other.map_or("is missing".into(), |v| format!("should be an object, but is {}", short(v)));
                Err(whole.wrong(part, "", found))
            }
        }
    }

    /// Settings outside of those of parts.
    pub(crate) fn whole(checkpoint: &'a Checkpoint, arch: &'static Arch) -> Self {
        Self { defaults: None, ..Self::of(checkpoint, arch, vec![&checkpoint.config]) }
    }

    fn of(checkpoint: &'a Checkpoint, arch: &'static Arch, configs: Vec<&'a Map<String, Value>>) -> Self {
        Self {
            checkpoint,
            family: arch.hf,
            gguf_name: arch.gguf.first().copied().unwrap_or_default(),
            configs,
            defaults: defaults::of(arch.hf),
            noted: RefCell::default(),
            noted_wide: RefCell::default(),
            noted_tensors: RefCell::default(),
            noted_factors: RefCell::default(),
            unsayable: RefCell::default(),
            unread: RefCell::default(),
            own_output: Cell::default(),
            spare_experts: Cell::default(),
            looked_for: RefCell::default(),
            defaults_taken: RefCell::default(),
        }
    }

    /// Whether the checkpoint is a GGUF file.
    pub(crate) fn is_gguf(&self) -> bool {
        self.checkpoint.source == Source::Gguf
    }

    /// The GGUF key of a setting.
    fn key(&self, key: &str) -> String {
        let arch = match self.checkpoint.metadata.get("general.architecture") {
            Some(Meta::Text(name)) => name,
            _ => self.gguf_name,
        };
        let key = format!("{arch}.{key}");
        self.look_for(&key);
        key
    }

    /// Notes that a complete key of GGUF metadata is looked for.
    pub(crate) fn look_for(&self, key: &str) {
        if self.is_gguf() {
            self.looked_for.borrow_mut().insert(key.to_string());
        }
    }

    /// The keys that were looked for: complete ones of GGUF metadata, or paths in `config.json`.
    pub(crate) fn looked_for(&self) -> BTreeSet<String> {
        self.looked_for.borrow().clone()
    }

    /// What the metadata of a GGUF file holds under `key`, of whatever type.
    pub(crate) fn gguf_value(&self, key: &str) -> Option<&'a Meta> {
        if self.is_gguf() { self.checkpoint.metadata.get(&self.key(key)) } else { None }
    }

    /// An error about a setting, by its name in whichever file it comes from.
    pub(crate) fn wrong(&self, hf: &str, gguf: &str, what: impl Into<String>) -> Error {
        let (path, key) =
            if self.is_gguf() { (self.checkpoint.path.clone(), self.key(gguf)) } else { (self.config_path(), hf.to_string()) };
        Error::Setting { path, key, what: what.into() }
    }

    fn config_path(&self) -> PathBuf {
        let path = &self.checkpoint.path;
        if path.is_dir() { path.join("config.json") } else { path.with_file_name("config.json") }
    }

    /// A value of `config.json`, of the text model's part first; `null` counts as absent. `a.b` is `b` of the object `a`.
    pub(crate) fn json(&self, hf: &str) -> Option<&'a Value> {
        self.looked_for.borrow_mut().extend(hf.split('|').map(str::to_string));
        let all = || self.configs.iter().flat_map(|c| hf.split('|').filter_map(|path| at(c, path)));
        let default = || self.defaults.and_then(|c| hf.split('|').find_map(|path| at(c, path)));
        all().find(|v| !v.is_null()).or_else(|| if all().next().is_some() { None } else { default() })
    }

    /// What `config.json` itself has under `key`, the text model's part first.
    pub(crate) fn own_json(&self, key: &str) -> Option<&'a Value> {
        self.looked_for.borrow_mut().insert(key.to_string());
        self.configs.iter().find_map(|config| at(config, key))
    }

    /// Gives `found`, or else `default`, which is noted as taken.
    fn or<T: ToString>(&self, found: Option<T>, default: T, hf: &str, gguf: &str) -> T {
        found.unwrap_or_else(|| {
            let key = if self.is_gguf() { gguf } else { hf.split('|').min_by_key(|path| path.matches('.').count()).unwrap_or_default() };
            if !key.is_empty() {
                self.defaults_taken.borrow_mut().insert(key.to_string(), default.to_string());
            }
            default
        })
    }

    /// Settings that are not stated, and what was taken for them.
    pub(crate) fn defaults_taken(&self) -> BTreeMap<String, String> {
        self.defaults_taken.borrow().clone()
    }

    fn read<T>(&self, hf: &str, gguf: &str, json: impl Fn(&Value) -> Option<T>, meta: impl Fn(&str) -> Read<T>, kind: &str) -> Read<T> {
        if self.is_gguf() {
            return meta(&self.key(gguf));
        }
        self.json(hf).map(|v| json(v).ok_or_else(|| self.wrong(hf, gguf, format!("should be {kind}, but is {}", short(v))))).transpose()
    }

    /// Notes what a GGUF file would say under `key` (without the architecture's name).
    pub(crate) fn note(&self, key: &str, value: Meta) {
        if !self.is_gguf() && !key.is_empty() {
            self.noted.borrow_mut().insert(self.key(key), value);
        }
    }

    /// Notes what a GGUF file would say under `key`, a whole one.
    pub(crate) fn note_global(&self, key: &str, value: Meta) {
        if !self.is_gguf() {
            self.noted.borrow_mut().insert(key.to_string(), value);
        }
    }

    /// Notes numbers of 64 bits that a GGUF file would hold under `key`.
    pub(crate) fn note_wide(&self, key: &str, values: Vec<u64>) {
        if !self.is_gguf() {
            self.noted_wide.borrow_mut().insert(self.key(key), values);
        }
    }

    /// The numbers of 64 bits that were noted.
    pub(crate) fn noted_wide(&self) -> BTreeMap<String, Vec<u64>> {
        self.noted_wide.borrow().clone()
    }

    /// Notes that a GGUF file would hold the vector `name`.
    pub(crate) fn note_tensor(&self, name: &str, values: Vec<f32>) {
        self.note_shaped_tensor(name, vec![values.len()], values);
    }

    /// Notes that a GGUF file would hold the tensor `name`, with its outermost dimension first.
    pub(crate) fn note_shaped_tensor(&self, name: &str, shape: Vec<usize>, values: Vec<f32>) {
        if !self.is_gguf() {
            self.noted_tensors.borrow_mut().insert(name.to_string(), (shape, values));
        }
    }

    /// Notes that the tensors `name` of a GGUF file would hold these factors: one, or one for each row. The name is that within
    /// the layer, `attn_k.weight`, or `attn_k` for weight and bias; or the whole name, for one layer.
    pub(crate) fn note_factors(&self, name: &str, factors: &[f32]) {
        if !self.is_gguf() && factors.iter().any(|f| *f != 1.0) {
            self.noted_factors.borrow_mut().insert(name.to_string(), factors.to_vec());
        }
    }

    /// The factors that were noted for the tensor `name` (complete).
    pub(crate) fn noted_factors(&self, name: &str) -> Option<Vec<f32>> {
        let within = layer_parts(name).map_or(name, |(.., within)| within);
        let noted = self.noted_factors.borrow();
        let named = |name: &str| noted.get(name).or_else(|| noted.get(name.rsplit_once('.')?.0));
        named(name).or_else(|| named(within)).cloned()
    }

    /// Notes that the model cannot be written as GGUF where `so`, because `what`.
    pub(crate) fn hf_only(&self, so: bool, what: &str) {
        if so && !self.is_gguf() {
            self.unsayable.borrow_mut().push(what.to_string());
        }
    }

    /// Notes that llama.cpp does not load, or does not run as it is meant, the GGUF form where `so`, because `what`.
    pub(crate) fn unread_by_llama_cpp(&self, so: bool, what: &str) {
        if so && !self.is_gguf() {
            self.unread.borrow_mut().push(what.to_string());
        }
    }

    /// What was so noted.
    pub(crate) fn unread(&self) -> Vec<String> {
        self.unread.borrow().clone()
    }

    /// Notes that the checkpoint holds matrices of experts that have none, from `first` on.
    pub(crate) fn note_spare_experts(&self, first: usize) {
        self.spare_experts.set(Some(first));
    }

    /// See [`Settings::note_spare_experts`].
    pub(crate) fn spare_experts(&self) -> Option<usize> {
        self.spare_experts.get()
    }

    /// Notes that GGUF files of the architecture hold the output matrix, even where it is the embedding table.
    pub(crate) fn note_own_output(&self) {
        self.own_output.set(true);
    }

    /// What was so noted.
    pub(crate) fn own_output(&self) -> bool {
        self.own_output.get()
    }

    /// GGUF's key-value pairs for what was read.
    pub(crate) fn noted(&self) -> BTreeMap<String, Meta> {
        self.noted.borrow().clone()
    }

    /// The tensors that were noted.
    pub(crate) fn noted_tensors(&self) -> BTreeMap<String, ShapedTensor> {
        self.noted_tensors.borrow().clone()
    }

    /// What GGUF files cannot say of the model.
    pub(crate) fn unsayable(&self) -> Vec<String> {
        self.unsayable.borrow().clone()
    }

    fn missing(&self, hf: &str, gguf: &str) -> Error {
        self.wrong(hf, gguf, "is missing")
    }

    /// A count from 1 to `largest`, where there is one.
    pub(crate) fn optional_size_to(&self, hf: &str, gguf: &str, largest: usize) -> Result<Option<usize>> {
        let Some(n) = self.read(hf, gguf, whole_number, |key| self.unsigned(key), "a whole number")? else { return Ok(None) };
        match usize::try_from(n).ok().filter(|n| (1..=largest).contains(n)) {
            Some(n) => {
                self.note(gguf, Meta::Unsigned(n as u64));
                Ok(Some(n))
            }
            None => Err(self.wrong(hf, gguf, format!("is {n}; from 1 to {largest} are allowed"))),
        }
    }

    /// A whole number in GGUF metadata. Hybrids have a list with one for each layer, zero where a layer has no use for it: then it
    /// is what all others agree on.
    fn unsigned(&self, key: &str) -> Read<u64> {
        let Some(Meta::Integers(list)) = self.checkpoint.metadata.get(key) else { return Ok(self.checkpoint.metadata.unsigned(key)?) };
        let mut used = list.iter().filter(|n| **n != 0);
        let n = used.next().copied().unwrap_or(0);
        match u64::try_from(n) {
            Ok(n) if used.all(|m| u64::try_from(*m) == Ok(n)) => Ok(Some(n)),
            _ => {
                let what = "has different numbers for different layers, which is not known".into();
                Err(Error::Setting { path: self.checkpoint.path.clone(), key: key.into(), what })
            }
        }
    }

    /// A size of each layer: one for all, or a list.
    pub(crate) fn sizes(&self, hf: &str, gguf: &str, layers: usize) -> Result<Vec<usize>> {
        let list: Option<Vec<Option<usize>>> = match self.is_gguf() {
            true => self.integers(gguf).map(|list| list.iter().map(|n| usize::try_from(*n).ok()).collect()),
            false => self
                .json(hf)
                .and_then(Value::as_array)
                .map(|list| list.iter().map(|n| n.as_u64().and_then(|n| n.try_into().ok())).collect()),
        };
        let Some(list) = list else { return Ok(vec![self.size(hf, gguf)?; layers]) };
        if list.len() < layers {
            return Err(self.wrong(hf, gguf, format!("has {} entries for {layers} layers", list.len())));
        }
        let one = |n: Option<usize>| n.filter(|n| (1..=LARGEST).contains(n));
        let what = || self.wrong(hf, gguf, format!("should have whole numbers from 1 to {LARGEST} for its layers"));
        list.into_iter().take(layers).map(|n| one(n).ok_or_else(what)).collect()
    }

    /// Notes a size of each layer: as one number where all are the same.
    pub(crate) fn note_sizes(&self, gguf: &str, sizes: &[usize]) {
        let list = || sizes.iter().map(|n| *n as i64).collect();
        let same = sizes.iter().all(|n| Some(n) == sizes.first());
        self.note(
            gguf,
            match sizes.first() {
                Some(one) if same => Meta::Unsigned(*one as u64),
                _ => Meta::Integers(list()),
            },
        );
    }

    /// A truth value for each layer in GGUF metadata, which some files hold as numbers.
    pub(crate) fn flags(&self, gguf: &str, layers: usize) -> Result<Option<Vec<bool>>> {
        let flags: Vec<bool> = match self.gguf_value(gguf) {
            None => return Ok(None),
            Some(Meta::Bools(list)) => list.clone(),
            Some(Meta::Integers(list)) => list.iter().map(|n| *n != 0).collect(),
            Some(_) => vec![],
        };
        match flags.get(..layers) {
            Some(flags) => Ok(Some(flags.to_vec())),
            None => Err(self.wrong("", gguf, format!("should be a truth value for each of {layers} layers"))),
        }
    }

    /// A list of integers in GGUF metadata, one for each layer.
    pub(crate) fn integers(&self, gguf: &str) -> Option<&'a [i64]> {
        match self.checkpoint.metadata.get(&self.key(gguf)) {
            Some(Meta::Integers(list)) if self.is_gguf() => Some(list),
            _ => None,
        }
    }

    /// A count that may be zero, with a default, which is noted too.
    pub(crate) fn count_or(&self, hf: &str, gguf: &str, default: usize) -> Result<usize> {
        let n = self.or(self.read(hf, gguf, Value::as_u64, |key| self.unsigned(key), "a whole number")?, default as u64, hf, gguf);
        let n = usize::try_from(n).ok().filter(|n| *n <= LARGEST);
        let n = n.ok_or_else(|| self.wrong(hf, gguf, format!("is larger than {LARGEST}")))?;
        self.note(gguf, Meta::Unsigned(n as u64));
        Ok(n)
    }

    /// A count from 1 to `largest`.
    pub(crate) fn size_to(&self, hf: &str, gguf: &str, largest: usize) -> Result<usize> {
        self.optional_size_to(hf, gguf, largest)?.ok_or_else(|| self.missing(hf, gguf))
    }

    /// A width, a number of heads, and the like: at least 1.
    pub(crate) fn size(&self, hf: &str, gguf: &str) -> Result<usize> {
        self.size_to(hf, gguf, LARGEST)
    }

    /// A size that need not be there.
    pub(crate) fn optional_size(&self, hf: &str, gguf: &str) -> Result<Option<usize>> {
        self.optional_size_to(hf, gguf, LARGEST)
    }

    /// Tokens back that layers with a window see; none where the setting is missing or zero.
    pub(crate) fn window(&self) -> Result<Option<usize>> {
        const KEYS: (&str, &str) = ("sliding_window|window_size", "attention.sliding_window");
        let meta = |key: &str| Ok(self.checkpoint.metadata.unsigned(key)?);
        let window = self.read(KEYS.0, KEYS.1, Value::as_u64, meta, "a whole number")?.filter(|n| *n > 0);
        window.map(|n| usize::try_from(n).map_err(|_| self.wrong(KEYS.0, KEYS.1, format!("is {n}, which is too large")))).transpose()
    }

    /// A size with a default, which is noted too.
    pub(crate) fn size_or(&self, hf: &str, gguf: &str, default: usize) -> Result<usize> {
        let n = self.or(self.optional_size(hf, gguf)?, default, hf, gguf);
        self.note(gguf, Meta::Unsigned(n as u64));
        Ok(n)
    }

    /// A finite number, where there is one.
    pub(crate) fn optional_float(&self, hf: &str, gguf: &str) -> Result<Option<f64>> {
        let meta = |key: &str| Ok(self.checkpoint.metadata.float(key)?);
        let Some(x) = self.read(hf, gguf, Value::as_f64, meta, "a number")? else { return Ok(None) };
        if !x.is_finite() {
            return Err(self.wrong(hf, gguf, format!("is {x}, which is not a finite number")));
        }
        self.note(gguf, Meta::Float(x));
        Ok(Some(x))
    }

    /// A positive number, where there is one.
    pub(crate) fn optional_positive(&self, hf: &str, gguf: &str) -> Result<Option<f64>> {
        match self.optional_float(hf, gguf)? {
            Some(x) if x <= 0.0 => Err(self.wrong(hf, gguf, format!("is {x}, but should be positive"))),
            x => Ok(x),
        }
    }

    /// A positive number with a default, which is noted too.
    pub(crate) fn float_or(&self, hf: &str, gguf: &str, default: f64) -> Result<f64> {
        let x = self.or(self.optional_positive(hf, gguf)?, default, hf, gguf);
        self.note(gguf, Meta::Float(x));
        Ok(x)
    }

    /// The small number that keeps a norm from dividing by zero.
    pub(crate) fn epsilon(&self, hf: &str, gguf: &str) -> Result<f32> {
        self.optional_epsilon(hf, gguf)?.ok_or_else(|| self.missing(hf, gguf))
    }

    /// The same with a default, which is noted too.
    pub(crate) fn epsilon_or(&self, hf: &str, gguf: &str, default: f32) -> Result<f32> {
        let x = self.or(self.optional_epsilon(hf, gguf)?, default, hf, gguf);
        self.note(gguf, Meta::Float(f64::from(x)));
        Ok(x)
    }

    fn optional_epsilon(&self, hf: &str, gguf: &str) -> Result<Option<f32>> {
        match self.optional_float(hf, gguf)? {
            Some(x) if !(0.0..1.0).contains(&x) => Err(self.wrong(hf, gguf, format!("is {x}; from 0 to 1 are allowed"))),
            x => Ok(x.map(|x| x as f32)),
        }
    }

    /// A truth value with a default.
    pub(crate) fn bool_or(&self, hf: &str, gguf: &str, default: bool) -> Result<bool> {
        let meta = |key: &str| Ok(self.checkpoint.metadata.bool(key)?);
        let value = self.or(self.read(hf, gguf, Value::as_bool, meta, "true or false")?, default, hf, gguf);
        self.note(gguf, Meta::Bool(value));
        Ok(value)
    }

    /// A word with a default, which is not noted: GGUF files hold few words, and other ones.
    pub(crate) fn text_or(&self, hf: &str, gguf: &str, default: &str) -> Result<String> {
        let meta = |key: &str| Ok(self.checkpoint.metadata.text(key)?.map(str::to_string));
        Ok(self.or(self.read(hf, gguf, |v| v.as_str().map(str::to_string), meta, "a word")?, default.to_string(), hf, gguf))
    }

    /// A truth value that GGUF files do not hold: there it is `gguf`, as the architecture's name implies.
    pub(crate) fn implied(&self, hf: &str, gguf: bool) -> Result<bool> {
        if self.is_gguf() { Ok(gguf) } else { self.bool_or(hf, "", gguf) }
    }

    /// The activation function, by its name in `config.json`; GGUF implies it by the architecture's name.
    pub(crate) fn activation(&self, gguf: &str) -> Result<Function> {
        self.activation_of("hidden_act|hidden_activation|activation_function|activation|ffn_config.ffn_act_fn.name", gguf)
    }

    /// The activation function that `config.json` names under the key `hf`.
    pub(crate) fn activation_of(&self, hf: &str, gguf: &str) -> Result<Function> {
        let name = if self.is_gguf() { gguf.to_string() } else { self.text_or(hf, "", gguf)? };
        let f = function(&name).ok_or_else(|| self.wrong(hf, "", format!("is `{name}`, which is not known; known are {FUNCTIONS}")))?;
        self.hf_only(
            Some(f) != function(gguf),
            &format!("its activation is `{name}`, where GGUF files of `{}` mean `{gguf}`", self.gguf_name),
        );
        Ok(f)
    }

    /// Layers as they are stated. GGUF files count those that only predict further tokens (MTP) among them.
    fn stated_layers(&self) -> Result<usize> {
        const KEYS: (&str, &str) = ("num_hidden_layers|n_layer|num_layers|n_layers|num_transformer_layers|encoder_layers", "block_count");
        // Some hybrids state their layers by the list of them only.
        let listed = self.json("layers_block_type").and_then(Value::as_array).map(Vec::len);
        let layers = match listed.filter(|_| !self.is_gguf() && self.json(KEYS.0).is_none()) {
            Some(listed) => {
                self.note(KEYS.1, Meta::Unsigned(listed as u64));
                listed
            }
            None => self.size(KEYS.0, KEYS.1)?,
        };
        let tensors = self.checkpoint.tensors.len();
        if layers > tensors {
            return Err(self.wrong(KEYS.0, KEYS.1, format!("is {layers}, more than there are tensors ({tensors})")));
        }
        Ok(layers)
    }

    /// All layers, with those that only predict further tokens.
    pub(crate) fn all_layers(&self) -> Result<usize> {
        let stated = self.stated_layers()?;
        let more = if self.is_gguf() { 0 } else { self.count_or("num_nextn_predict_layers|num_mtp_layers", "", 0)? };
        Ok(stated + more)
    }

    /// Layers that make the logits.
    pub(crate) fn layers(&self) -> Result<usize> {
        const MORE: &str = "nextn_predict_layers";
        let all = self.stated_layers()?;
        let more = if self.is_gguf() { self.optional_count(MORE)? } else { 0 };
        all.checked_sub(more).filter(|n| *n > 0).ok_or_else(|| self.wrong("", MORE, format!("is {more}, but there are {all} layers")))
    }

    /// A count in GGUF metadata, 0 where there is none.
    fn optional_count(&self, gguf: &str) -> Result<usize> {
        Ok(self.checkpoint.metadata.unsigned(&self.key(gguf))?.map_or(0, |n| n.min(LARGEST as u64) as usize))
    }

    /// Tokens of context that the model was made for.
    pub(crate) fn context(&self) -> Result<usize> {
        const KEYS: &str = "max_position_embeddings|n_positions|max_seq_len|seq_length|n_ctx|model_max_length|context_length|max_context_length|max_sequence_length";
        let stated = match self.optional_size_to(KEYS, "context_length", 1 << 31)? {
            Some(stated) => stated,
            // NeoBERT's name; elsewhere it is about what programs generate.
            None => self.size_to("max_position_embeddings|max_length", "context_length", 1 << 31)?,
        };
        let context = self.plain_context()?.map_or(stated, |plain| plain.min(stated));
        self.note("context_length", Meta::Unsigned(context as u64));
        Ok(context)
    }

    /// Tokens beyond which attention changes in a way that is not known here, so that contexts end there.
    fn plain_context(&self) -> Result<Option<usize>> {
        // MiniCPM 4 chooses blocks of keys in longer contexts.
        if let Some(tokens) = self.optional_size_to("sparse_config.dense_len", "", 1 << 31)? {
            return Ok(Some(tokens));
        }
        // Qwen scales queries by the logarithm of their position, and lets the base grow.
        let grows = ["use_dynamic_ntk", "use_logn_attn"].iter().any(|key| self.json(key).and_then(Value::as_bool) == Some(true));
        if grows { self.optional_size_to("seq_length", "", 1 << 31) } else { Ok(None) }
    }

    /// Tokens in the vocabulary: rows of the embedding table. `config.json` states them too, and then they must agree. What GGUF files
    /// state is not always true, and llama.cpp does not look at it: a contradiction is told.
    pub(crate) fn vocabulary(&self, embedding_rows: Option<usize>) -> Result<usize> {
        const KEYS: (&str, &str) = ("vocab_size|padded_vocab_size", "vocab_size");
        let stated = self.optional_size_to(KEYS.0, KEYS.1, 1 << 24)?;
        let rows = embedding_rows.filter(|n| *n <= 1 << 24);
        let size = match (stated, rows) {
            (Some(stated), Some(rows)) if self.is_gguf() => {
                if stated != rows {
                    let (path, key) = (self.checkpoint.path.display(), self.key(KEYS.1));
                    tracing::warn!("{path}: `{key}` is {stated}, but the embedding table has {rows} rows, which count");
                }
                rows
            }
            (stated, rows) => stated.or(rows).ok_or_else(|| self.missing(KEYS.0, KEYS.1))?,
        };
        self.note(KEYS.1, Meta::Unsigned(size as u64));
        Ok(size)
    }

    /// Whether the output matrix is the embedding table, where the checkpoint says so.
    pub(crate) fn tied(&self, names: &[&str]) -> Result<Option<bool>> {
        const TIED: &str = "tie_word_embeddings|weight_tying";
        // These have an output matrix, or have one where it is there, whatever their checkpoints say.
        const NEVER_TIED: [&str; 6] = ["nemotron_h", "kimi_linear", "bailing_hybrid", "t5", "umt5", "mt5"];
        let says = self.json(TIED).is_some();
        if names.iter().any(|n| NEVER_TIED.contains(n)) || self.is_gguf() || !says {
            Ok(None)
        } else {
            self.bool_or(TIED, "", false).map(Some)
        }
    }

    /// What each layer's word under `key` stands for, where `config.json` has such a list. Words that are not `known` are refused.
    pub(crate) fn kinds<T: Copy>(&self, key: &str, layers: usize, known: &[(&str, T)]) -> Result<Option<Vec<T>>> {
        let one = |kind: &Value| {
            let found = known.iter().find(|(word, _)| kind.as_str() == Some(word));
            found.map(|(_, meaning)| *meaning).ok_or_else(|| {
                let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
                let words = match &words[..] {
                    [one] => format!("is {one}"),
                    [first @ .., last] => format!("are {} and {last}", first.join(", ")),
                    [] => "are none".into(),
                };
                self.wrong(key, "", format!("has {kind}; known {words}"))
            })
        };
        self.per_layer(key, layers)?.map(|kinds| kinds.into_iter().map(one).collect()).transpose()
    }

    /// One word or number for each layer, where `config.json` has such a list under `key`.
    pub(crate) fn per_layer(&self, key: &str, layers: usize) -> Result<Option<Vec<&'a Value>>> {
        let Some(value) = self.json(key) else { return Ok(None) };
        match value.as_array() {
            Some(list) if list.len() >= layers => Ok(Some(list.iter().take(layers).collect())),
            Some(list) => Err(self.wrong(key, "", format!("has {} entries for {layers} layers", list.len()))),
            None => Err(self.wrong(key, "", format!("should be a list, but is {}", short(value)))),
        }
    }
}

/// The value at `a.b` of an object.
fn at<'v>(config: &'v Map<String, Value>, path: &str) -> Option<&'v Value> {
    let mut steps = path.split('.');
    let first = config.get(steps.next()?)?;
    steps.try_fold(first, |v, step| v.get(step))
}

/// A whole number; or a list, one for each layer, that says the same for all.
fn whole_number(value: &Value) -> Option<u64> {
    let one = |list: &Vec<Value>| list.first().filter(|first| list.iter().all(|v| v == *first)).and_then(Value::as_u64);
    value.as_u64().or_else(|| value.as_array().and_then(one))
}

pub(crate) const FUNCTIONS: &str = "silu, gelu, gelu_pytorch_tanh, quick_gelu, relu, relu2";

/// A function by the name that configurations use.
pub(crate) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "silu" | "swish" => Function::Silu,
        "gelu" => Function::Gelu,
        "gelu_pytorch_tanh" | "gelu_new" | "gelu_fast" => Function::GeluTanh,
        "quick_gelu" => Function::QuickGelu,
        "relu" => Function::Relu,
        "relu2" | "sqrelu" => Function::ReluSquared,
        _ => return None,
    })
}

/// A JSON value for a message.
pub(crate) fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
