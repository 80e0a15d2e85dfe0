//! Towers that see square tiles of one size: CLIP (Radford et al. 2021, arXiv:2103.00020), SigLIP (Zhai et al. 2023, arXiv:2303.15343)
//! and InternViT (Chen et al. 2024, arXiv:2312.14238). Reference: transformers' `models/clip`, `siglip`, `internvl`.

use super::{source::Source, vit::Vit};
use crate::{
    Result,
    arch::Norm,
    names::{Entry, tensor},
};
use onebit_plan::Model;
use onebit_vision::{Filter, Normalize, PositionTable, Tiles};

/// A transformer of CLIP's or SigLIP's form.
pub(super) const CLIP: &[Entry] = &[
    tensor("patch_embd", "model.embeddings.patch_embedding"),
    tensor("position_embd", "model.embeddings.position_embedding"),
    tensor("class_embd", "model.embeddings.class_embedding"),
    // As transformers spells it.
    tensor("pre_ln", "model.pre_layrnorm"),
    tensor("post_ln", "model.post_layernorm"),
    tensor("blk.{}.ln1", "model.encoder.layers.{}.layer_norm1"),
    tensor("blk.{}.ln2", "model.encoder.layers.{}.layer_norm2"),
    tensor("blk.{}.attn_qkv", ""),
    tensor("blk.{}.attn_q", "model.encoder.layers.{}.self_attn.q_proj"),
    tensor("blk.{}.attn_k", "model.encoder.layers.{}.self_attn.k_proj"),
    tensor("blk.{}.attn_v", "model.encoder.layers.{}.self_attn.v_proj"),
    tensor("blk.{}.attn_out", "model.encoder.layers.{}.self_attn.out_proj"),
    tensor("blk.{}.attn_q_norm", ""),
    tensor("blk.{}.attn_k_norm", ""),
    tensor("blk.{}.ls1", ""),
    tensor("blk.{}.ls2", ""),
    tensor("blk.{}.ffn_up", "model.encoder.layers.{}.mlp.fc1"),
    tensor("blk.{}.ffn_down", "model.encoder.layers.{}.mlp.fc2"),
];

/// InternViT's transformer.
pub(super) const INTERN: &[Entry] = &[
    tensor("patch_embd", "model.embeddings.patch_embeddings.projection"),
    tensor("position_embd.weight", "model.embeddings.position_embeddings"),
    tensor("class_embd", "model.embeddings.cls_token"),
    tensor("pre_ln", ""),
    tensor("post_ln", "model.layernorm"),
    tensor("blk.{}.ln1", "model.encoder.layer.{}.layernorm_before"),
    tensor("blk.{}.ln2", "model.encoder.layer.{}.layernorm_after"),
    tensor("blk.{}.attn_qkv", ""),
    tensor("blk.{}.attn_q", "model.encoder.layer.{}.attention.q_proj"),
    tensor("blk.{}.attn_k", "model.encoder.layer.{}.attention.k_proj"),
    tensor("blk.{}.attn_v", "model.encoder.layer.{}.attention.v_proj"),
    tensor("blk.{}.attn_out", "model.encoder.layer.{}.attention.projection_layer"),
    tensor("blk.{}.attn_q_norm", "model.encoder.layer.{}.attention.q_norm"),
    tensor("blk.{}.attn_k_norm", "model.encoder.layer.{}.attention.k_norm"),
    tensor("blk.{}.ls1.weight", "model.encoder.layer.{}.lambda_1"),
    tensor("blk.{}.ls2.weight", "model.encoder.layer.{}.lambda_2"),
    tensor("blk.{}.ffn_up", "model.encoder.layer.{}.mlp.fc1"),
    tensor("blk.{}.ffn_down", "model.encoder.layer.{}.mlp.fc2"),
];

/// What settings are where they are not stated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usual {
    pub(super) width: usize,
    pub(super) inner: usize,
    pub(super) layers: usize,
    pub(super) heads: usize,
    pub(super) image: usize,
    pub(super) patch: usize,
    pub(super) eps: f32,
    pub(super) act: &'static str,
}

impl Usual {
    /// Of transformers' `CLIPVisionConfig`.
    pub(super) const CLIP: Self =
        Self { width: 768, inner: 3072, layers: 12, heads: 12, image: 224, patch: 32, eps: 1e-5, act: "quick_gelu" };
    /// Of `SiglipVisionConfig`.
    pub(super) const SIGLIP: Self = Self { patch: 16, eps: 1e-6, act: "gelu_pytorch_tanh", ..Self::CLIP };
    /// Of `Idefics3VisionConfig` and `SmolVLMVisionConfig`.
    pub(super) const IDEFICS3: Self = Self { width: 1152, heads: 16, patch: 32, ..Self::SIGLIP };
    /// Of `InternVLVisionConfig`.
    pub(super) const INTERN: Self = Self { width: 1024, inner: 4096, layers: 24, heads: 16, image: 448, patch: 14, eps: 1e-6, act: "gelu" };
}

/// What the settings say.
#[derive(Clone, Debug)]
pub(super) struct Tiled {
    pub(super) vit: Vit,
    /// Pixels of a tile's side.
    pub(super) image: usize,
    /// Pixels of a patch's side.
    pub(super) patch: usize,
    /// After how many layers each of the features is taken that the projector is given, side by side.
    pub(super) features: Vec<usize>,
    /// Whether a norm follows the last layer.
    pub(super) post_norm: bool,
}

impl Tiled {
    /// Reads the settings; features are those after the last layer.
    pub(super) fn read(s: &Source<'_>, usual: Usual, norm: Norm) -> Result<Self> {
        let t = &s.settings;
        const HEADS: (&str, &str) = ("num_attention_heads", "vision.attention.head_count");
        let width = t.size_or("hidden_size", "vision.embedding_length", usual.width)?;
        let heads = t.size_or(HEADS.0, HEADS.1, usual.heads)?;
        if !width.is_multiple_of(heads) {
            return Err(t.wrong(HEADS.0, HEADS.1, format!("is {heads}, which does not divide the width {width}")));
        }
        let layers = t.size_or("num_hidden_layers", "vision.block_count", usual.layers)?;
        if layers > s.tensors() {
            return Err(t.wrong("num_hidden_layers", "vision.block_count", format!("is {layers}, more than there are tensors")));
        }
        let channels = t.size_or("num_channels", "", 3)?;
        if channels != 3 {
            return Err(t.wrong("num_channels", "", format!("is {channels}; 3 is supported")));
        }
        let vit = Vit {
            width,
            heads,
            inner: t.size_or("intermediate_size", "vision.feed_forward_length", usual.inner)?,
            norm,
            eps: t.epsilon_or("layer_norm_eps", "vision.attention.layer_norm_epsilon", usual.eps)?,
            act: s.activation("hidden_act", usual.act)?,
            gated: false,
            rope: None,
            windows: vec![false; layers],
        };
        let (image, patch) =
            (s.side("image_size", "vision.image_size", usual.image)?, s.side("patch_size", "vision.patch_size", usual.patch)?);
        if image < patch || image / patch > 1 << 10 {
            return Err(t.wrong("image_size", "vision.image_size", format!("is {image}, which patches of {patch} do not divide well")));
        }
        Ok(Self { vit, image, patch, features: vec![layers], post_norm: false })
    }

    /// Numbers that the projector is given of a patch.
    pub(super) fn given(&self) -> usize {
        self.features.len() * self.vit.width
    }

    /// Tiles of this tower, blocks of `merge` patches of their side becoming tokens.
    pub(super) fn tiles(&self, s: &Source<'_>, merge: usize, filter: Filter, normalize: Normalize) -> Result<Tiles> {
        let (width, grid) = (self.vit.width, self.image / self.patch);
        if grid < merge {
            return Err(s.settings.wrong("image_size", "vision.image_size", format!("makes {grid} patches of a side, fewer than a block")));
        }
        let class = s.numbers("class_embd", &[width])?;
        let count = grid * grid + usize::from(class.is_some());
        let mut rows = s.needed("position_embd.weight", &[count, width])?;
        let class = match class {
            None => None,
            Some(mut class) => {
                // Its row gets the bias of the patches, too.
                let bias = s.numbers("patch_embd.bias", &[width])?.unwrap_or_else(|| vec![0.0; width]);
                let position: Vec<f32> = rows.drain(..width).collect();
                class.iter_mut().zip(position.iter().zip(&bias)).for_each(|(x, (position, bias))| *x += position - bias);
                Some(class)
            }
        };
        let positions = PositionTable { rows, side: grid, width };
        Ok(Tiles { side: self.image, patch: self.patch, filter, normalize, positions, class, keeps_class: false, merge })
    }

    /// The plan from patches to features, for tiles of so many rows.
    pub(super) fn encoder(&self, s: &Source<'_>, rows: usize) -> Result<Model> {
        let (vit, pixels) = (&self.vit, 3 * self.patch * self.patch);
        s.plan("encoder", self.given(), rows, |g| {
            let x = g.given(0, pixels);
            let x = g.linear(x, "patch_embd", vit.width);
            let positions = g.given(pixels, vit.width);
            let mut x = g.add(x, positions);
            if g.has("pre_ln.weight", &[vit.width]) {
                x = vit.normalized(g, x, "pre_ln");
            }
            let mut after = vec![x];
            let x = vit.build(g, x, |_, _, x| after.push(x));
            if self.post_norm {
                return vit.normalized(g, x, "post_ln");
            }
            let features: Vec<_> = self.features.iter().filter_map(|layers| after.get(*layers)).collect();
            features.iter().skip(1).fold(*features[0], |all, more| g.concat(all, **more, 1))
        })
    }
}
