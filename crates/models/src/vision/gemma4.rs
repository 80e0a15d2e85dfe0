//! Gemma 4's tower (Google DeepMind 2026): learned positions of rows and columns, rotation by both, four norms in a layer, blocks of
//! patches that are averaged. Reference: transformers' `models/gemma4`.

use super::{Vision, named, source::Source};
use crate::{
    Result,
    arch::Arch,
    names::{Entry, tensor},
};
use onebit_formats::Meta;
use onebit_plan::{AttentionSpec, Binary, Function, Graph, Mask, Rope, RopeStyle, Sight, Together, Value};
use onebit_vision::{Filter, Normalize, Pooled, Processor};

pub(super) static GEMMA4: Arch = named(&["gemma4"], &["gemma4v"], &[TENSORS, CLIPS], &[]);

const TENSORS: &[Entry] = &[
    tensor("patch_embd", "model.patch_embedder.input_proj"),
    tensor("position_embd.weight", "model.patch_embedder.position_embedding_table"),
    tensor("blk.{}.ln1", "model.encoder.layers.{}.input_layernorm"),
    tensor("blk.{}.attn_post_norm", "model.encoder.layers.{}.post_attention_layernorm"),
    tensor("blk.{}.ln2", "model.encoder.layers.{}.pre_feedforward_layernorm"),
    tensor("blk.{}.ffn_post_norm", "model.encoder.layers.{}.post_feedforward_layernorm"),
    tensor("blk.{}.attn_q", "model.encoder.layers.{}.self_attn.q_proj.linear"),
    tensor("blk.{}.attn_k", "model.encoder.layers.{}.self_attn.k_proj.linear"),
    tensor("blk.{}.attn_v", "model.encoder.layers.{}.self_attn.v_proj.linear"),
    tensor("blk.{}.attn_out", "model.encoder.layers.{}.self_attn.o_proj.linear"),
    tensor("blk.{}.attn_q_norm", "model.encoder.layers.{}.self_attn.q_norm"),
    tensor("blk.{}.attn_k_norm", "model.encoder.layers.{}.self_attn.k_norm"),
    tensor("blk.{}.ffn_gate", "model.encoder.layers.{}.mlp.gate_proj.linear"),
    tensor("blk.{}.ffn_up", "model.encoder.layers.{}.mlp.up_proj.linear"),
    tensor("blk.{}.ffn_down", "model.encoder.layers.{}.mlp.down_proj.linear"),
    tensor("std_bias", "model.std_bias"),
    tensor("std_scale", "model.std_scale"),
    tensor("mm.input_projection", "embed_vision.embedding_projection"),
];

/// Bounds of what goes into matrices and comes out of them.
macro_rules! clips {
    ($($ours:literal, $hf:literal;)*) => {
        &[$(
            tensor(concat!("blk.{}.", $ours, ".input_min"), concat!("model.encoder.layers.{}.", $hf, ".input_min")),
            tensor(concat!("blk.{}.", $ours, ".input_max"), concat!("model.encoder.layers.{}.", $hf, ".input_max")),
            tensor(concat!("blk.{}.", $ours, ".output_min"), concat!("model.encoder.layers.{}.", $hf, ".output_min")),
            tensor(concat!("blk.{}.", $ours, ".output_max"), concat!("model.encoder.layers.{}.", $hf, ".output_max")),
        )*]
    };
}

const CLIPS: &[Entry] = clips! {
    "attn_q", "self_attn.q_proj";
    "attn_k", "self_attn.k_proj";
    "attn_v", "self_attn.v_proj";
    "attn_out", "self_attn.o_proj";
    "ffn_gate", "mlp.gate_proj";
    "ffn_up", "mlp.up_proj";
    "ffn_down", "mlp.down_proj";
};

/// The matrices that have bounds, in this order.
const CLIPPED: [&str; 7] = ["attn_q", "attn_k", "attn_v", "attn_out", "ffn_gate", "ffn_up", "ffn_down"];

/// Heads of keys and values, which GGUF files state where they are fewer.
const KV_HEADS: &str = "vision.attention.head_count_kv";

/// What the settings say.
struct Tower {
    width: usize,
    inner: usize,
    heads: usize,
    kv_heads: usize,
    head: usize,
    eps: f32,
    act: Function,
    /// Rotations by columns and by rows, each of half a head.
    ropes: [Rope; 2],
    /// For each layer and matrix the bounds of its input and of its output, low and high.
    clips: Vec<[[f32; 4]; 7]>,
}

pub(super) fn load(s: &Source<'_>) -> Result<Vision> {
    let t = &s.settings;
    let width = t.size_or("hidden_size", "vision.embedding_length", 768)?;
    let heads = t.size_or("num_attention_heads", "vision.attention.head_count", 12)?;
    let head = if t.is_gguf() { width / heads } else { t.size_or("head_dim", "", 64)? };
    t.hf_only(head * heads != width, "its heads together are not as wide as its stream, as GGUF files of `gemma4v` mean");
    if !head.is_multiple_of(4) {
        return Err(t.wrong("head_dim", "", format!("is {head}; a multiple of 4 is needed")));
    }
    let layers = t.size_or("num_hidden_layers", "vision.block_count", 16)?;
    if layers > s.tensors() {
        return Err(t.wrong("num_hidden_layers", "vision.block_count", format!("is {layers}, more than there are tensors")));
    }
    let kind = t.text_or("rope_parameters.rope_type", "", "axial")?;
    if !["axial", "default"].contains(&kind.as_str()) {
        return Err(t.wrong("rope_parameters.rope_type", "", format!("is `{kind}`; `axial` is supported")));
    }
    let base = t.float_or("rope_parameters.rope_theta|rope_theta", "", 100.0)?;
    t.hf_only(base != 100.0, "the base of its rotation is not 100, as GGUF files of `gemma4v` mean");
    let frequencies = Rope::frequencies(base as f32, head / 2);
    let rope = |axis: u8| Rope { axes: vec![axis; frequencies.len()], ..Rope::new(RopeStyle::Halves, frequencies.clone()) };
    let in_file = |name: &str, hf: &str| if t.is_gguf() { Ok(s.rows(name).is_some()) } else { t.bool_or(hf, "", false) };
    let clipped = in_file("blk.0.attn_q.input_min", "use_clipped_linears")?;
    let kv_heads = match t.is_gguf() {
        true => t.size_or("", KV_HEADS, heads)?,
        false => t.size_or("num_key_value_heads", "", heads)?,
    };
    if kv_heads != heads {
        t.note(KV_HEADS, Meta::Unsigned(kv_heads as u64));
    }
    let tower = Tower {
        width,
        inner: t.size_or("intermediate_size", "vision.feed_forward_length", 3072)?,
        heads,
        kv_heads,
        head,
        eps: t.epsilon_or("rms_norm_eps", "vision.attention.layer_norm_epsilon", 1e-6)?,
        // llama.cpp's converter does not say it.
        act: t.activation_of("hidden_activation", "gelu_pytorch_tanh")?,
        ropes: [rope(2), rope(1)],
        clips: (0..layers).map(|layer| clips(s, layer, clipped)).collect::<Result<_>>()?,
    };
    t.unread_by_llama_cpp(tower.kv_heads != heads, "several of its heads share keys and values");
    t.note_global("clip.use_gelu", Meta::Bool(true));
    let processor = processor(s, width)?;
    let pixels = 3 * processor.patch * processor.patch;
    let encoder = s.plan("encoder", width, processor.most_patches(), |g| {
        let x = g.given(0, pixels);
        // On the Hub the matrix has the colours of a pixel side by side.
        let x = if t.is_gguf() { x } else { g.transpose(x, 3, pixels / 3) };
        let x = g.linear(x, "patch_embd", width);
        let positions = g.given(pixels, width);
        let x = g.add(x, positions);
        tower.build(g, x)
    })?;
    let (unit, standard) = (processor.pool * processor.pool, in_file("std_bias", "standardize")?);
    let out = s.rows("mm.input_projection.weight").unwrap_or(0);
    let projector = s.plan("projector", out, processor.most_rows(), |g| {
        let all = g.given(0, unit * width);
        let sum = g.sum(all, 1, unit);
        let mut x = g.scale(sum, (width as f32).sqrt() / unit as f32);
        if standard {
            // (x - bias) * scale
            let less = g.scale(x, -1.0);
            let less = g.with_weight(less, Binary::Add, "std_bias");
            let more = g.scale(less, -1.0);
            x = g.with_weight(more, Binary::Mul, "std_scale");
        }
        let x = g.plain_norm(x, width, tower.eps);
        g.linear(x, "mm.input_projection", out)
    })?;
    let together = match s.text.text_or("use_bidirectional_attention", "", "vision")?.as_str() {
        "vision" => Together::InWindows,
        _ => Together::No,
    };
    let sight = Sight { together, ..Sight::default() };
    Ok(Vision { encoder, projector, processor: Box::new(processor), newline: None, sight })
}

/// The bounds of a layer's matrices, where they have such.
fn clips(s: &Source<'_>, layer: usize, clipped: bool) -> Result<[[f32; 4]; 7]> {
    const FREE: [f32; 4] = [f32::NEG_INFINITY, f32::INFINITY, f32::NEG_INFINITY, f32::INFINITY];
    let mut all = [FREE; 7];
    if clipped {
        for (bounds, matrix) in all.iter_mut().zip(CLIPPED) {
            for (bound, name) in bounds.iter_mut().zip(["input_min", "input_max", "output_min", "output_max"]) {
                *bound = s.needed(&format!("blk.{layer}.{matrix}.{name}"), &[1])?.first().copied().unwrap_or(*bound);
            }
        }
    }
    Ok(all)
}

fn processor(s: &Source<'_>, width: usize) -> Result<Pooled> {
    let (t, pictures) = (&s.settings, &s.pictures);
    const MOST: &str = "vision.image_max_pixels";
    let patch = s.side("patch_size", "vision.patch_size", 16)?;
    let pool = t.size_or("pooling_kernel_size", "vision.projector.scale_factor", 3)?;
    pictures.squares(&["patch_size"], patch)?;
    pictures.squares(&["pooling_kernel_size"], pool)?;
    if pictures.flag("do_normalize", false)? || !pictures.flag("do_rescale", true)? || !pictures.flag("do_resize", true)? {
        return Err(pictures.wrong("do_normalize", "should be false, and do_rescale and do_resize true: the tower does the rest itself"));
    }
    let block = (patch * pool).pow(2);
    let most = match t.is_gguf() {
        true => (t.size_or("", MOST, 280 * block)? / block).clamp(1, 1 << 14),
        false => pictures.size("max_soft_tokens", 1 << 14)?.unwrap_or(280),
    };
    t.note(MOST, Meta::Unsigned((most * block) as u64));
    // llama.cpp wants to know it, though pictures of any size are taken.
    t.note("vision.image_size", Meta::Unsigned((most.isqrt() * pool * patch) as u64));
    // The tower itself brings pixels around zero.
    pictures.note_colours([0.0; 3], [1.0; 3]);
    // The tokens of an image see each other in windows; a window that cuts an image is not known here.
    let window = s.text.size_or("sliding_window", "", 512)?;
    if most > window {
        return Err(pictures.wrong("max_soft_tokens", format!("is {most}, more than the window of {window} tokens")));
    }
    let side = match t.is_gguf() {
        true => s.rows("position_embd.weight").unwrap_or(0) / 2,
        false => t.size_to("position_embedding_size", "", 1 << 16)?,
    };
    let mut rows = s.needed("position_embd.weight", &[2 * side, width])?;
    let mut columns = rows.clone();
    // No side has more patches than all blocks in a line.
    let kept = side.min(most * pool) * width;
    columns.truncate(kept);
    rows.drain(..side * width);
    rows.truncate(kept);
    let scale = pictures.number("rescale_factor")?.unwrap_or(1.0 / 255.0);
    pictures.note_unsaid(scale != 1.0 / 255.0, "by which factor pixels are multiplied");
    Ok(Pooled {
        patch,
        pool,
        most,
        filter: pictures.filter(Filter::Bicubic)?,
        normalize: Normalize::new(scale, [0.5; 3], [0.5; 3]),
        positions: [columns, rows],
        width,
    })
}

impl Tower {
    fn build(&self, g: &mut Graph<'_>, x: Value) -> Value {
        let spec = AttentionSpec { mask: Mask::Full, scale: 1.0, ..AttentionSpec::causal(self.heads, self.kv_heads, self.head) };
        let cache = g.kv_cache(&spec);
        g.layers(self.clips.len(), x, |g, layer, x| {
            let clips = &self.clips[layer];
            let h = g.rms_norm(x, "ln1", self.eps);
            let [q, k, v] = [(0, self.heads), (1, self.kv_heads), (2, self.kv_heads)]
                .map(|(matrix, heads)| self.linear(g, h, matrix, heads * self.head, clips));
            let q = g.head_norm(q, "attn_q_norm", self.head, self.eps);
            let k = g.head_norm(k, "attn_k_norm", self.head, self.eps);
            let v = g.plain_norm(v, self.head, self.eps);
            let [q, k] = [(q, self.heads), (k, self.kv_heads)].map(|(x, heads)| self.turned(g, x, heads));
            let y = g.attention_in(cache, q, Some([k, v]), &spec);
            let y = self.linear(g, y, 3, self.width, clips);
            let y = g.rms_norm(y, "attn_post_norm", self.eps);
            let x = g.add(x, y);
            let h = g.rms_norm(x, "ln2", self.eps);
            let [gate, up] = [4, 5].map(|matrix| self.linear(g, h, matrix, self.inner, clips));
            let y = g.glu(gate, up, self.act);
            let y = self.linear(g, y, 6, self.width, clips);
            let y = g.rms_norm(y, "ffn_post_norm", self.eps);
            g.add(x, y)
        })
    }

    /// Both halves of each head, by columns and by rows.
    fn turned(&self, g: &mut Graph<'_>, x: Value, heads: usize) -> Value {
        let half = self.head / 2;
        let [a, b] = [0, 1].map(|i| {
            let part = g.slice(x, heads, i * half, half);
            g.rope(part, half, &self.ropes[i])
        });
        g.concat(a, b, heads)
    }

    /// A matrix between its bounds.
    fn linear(&self, g: &mut Graph<'_>, x: Value, matrix: usize, out: usize, clips: &[[f32; 4]; 7]) -> Value {
        let [input_min, input_max, output_min, output_max] = clips[matrix];
        let within = |g: &mut Graph<'_>, x: Value, low: f32, high: f32| match low > f32::NEG_INFINITY || high < f32::INFINITY {
            true => g.clamp_between(x, low, high),
            false => x,
        };
        let x = within(g, x, input_min, input_max);
        let y = g.linear(x, CLIPPED[matrix], out);
        within(g, y, output_min, output_max)
    }
}
