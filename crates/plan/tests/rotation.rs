//! Where `rotate` puts rotations, and what it refuses.

use onebit_formats::{Checkpoint, safetensors::Writer};
use onebit_plan::{
    Binary, Edit, ExpertsSpec, Function, Graph, Model, Op, Resolve, Rotated, Rotation, Rotations, Route, Score, Value, Weight, WeightId,
    rotate,
};
use std::path::Path;

/// Finds every weight, all zeros; of biases only the one that is asked for by name.
struct Zeros<'a>(&'a Path);

impl Resolve for Zeros<'_> {
    fn resolve(&self, name: &str, shape: &[usize]) -> onebit_plan::Result<Option<Weight>> {
        if name == "output.weight" || name.ends_with(".bias") && !name.ends_with("shift.bias") {
            return Ok(None);
        }
        let path = self.0.join(format!("{name}.safetensors"));
        let mut writer = Writer::new(&path);
        writer.tensor("it", onebit_quants::F32, shape)?;
        let mut data = writer.begin()?;
        data.write("it", &vec![0; shape.iter().product::<usize>() * 4])?;
        data.finish()?;
        let file = Checkpoint::open(&path)?;
        Ok(Some(Weight::whole(name, &file.tensors["it"], shape.to_vec(), Edit::None)?))
    }
}

/// A tied model, 16 wide, with `body` in its one layer.
fn model(body: impl Fn(&mut Graph<'_>, Value) -> Value) -> Model {
    let folder = tempfile::tempdir().expect("a folder");
    let weights = Zeros(folder.path());
    let mut g = Graph::new("made", 6, 64, &weights);
    let x = g.embed("token_embd", 16, 1.0);
    let x = g.layers(1, x, |g, _, x| body(g, x));
    let x = g.select(x);
    let logits = g.head(x);
    g.finish(logits).expect("a valid plan")
}

fn id(model: &Model, name: &str) -> WeightId {
    WeightId(model.plan.weights.iter().position(|w| w.name == name).expect(name) as u32)
}

fn plain(block: usize) -> Rotation {
    Rotation { block, signs: None }
}

fn matrices(model: &Model, names: &[&str], how: &Rotated) -> Rotations {
    Rotations { matrices: names.iter().map(|n| (id(model, n), how.clone())).collect(), ..Rotations::default() }
}

fn kinds(model: &Model) -> Vec<&'static str> {
    model.plan.ops.iter().map(Op::name).collect()
}

const HOW: Rotated = Rotated { rotation: Rotation { block: 8, signs: None }, grouped: false };

fn two_products(g: &mut Graph<'_>, x: Value) -> Value {
    let a = g.linear(x, "a_proj", 16);
    let b = g.linear(x, "b_proj", 16);
    let c = g.linear(x, "c_proj", 16);
    let y = g.add(a, b);
    g.add(y, c)
}

#[test]
fn one_rotation_serves_all_products_of_a_value() {
    let model = model(two_products);
    let how = matrices(&model, &["blk.0.a_proj.weight", "blk.0.c_proj.weight"], &HOW);
    let rotated = rotate(model.clone(), &how).expect("it can be");
    assert_eq!(kinds(&rotated), ["embed", "hadamard", "linear", "linear", "linear", "add", "add", "select", "linear"]);
    let reads: Vec<Value> = rotated.plan.ops.iter().filter(|op| op.name() == "linear").map(|op| op.inputs()[0]).collect();
    assert!(reads[0] == reads[2] && reads[0] != reads[1], "{reads:?}");
    assert_eq!(rotated.plan.op_layers[1], Some(0));

    let mut two = how;
    let other = Rotated { rotation: plain(4), grouped: false };
    two.matrices.insert(id(&model, "blk.0.b_proj.weight"), other);
    assert_eq!(kinds(&rotate(model, &two).expect("it can be")).iter().filter(|n| **n == "hadamard").count(), 2);
}

/// Value heads of 2 key heads, three to each: from `[3, 2]` to `[2, 3]`.
#[test]
fn inputs_are_regrouped_by_the_heads_of_the_layer() {
    let delta = |tiled: bool| {
        model(move |g, x| {
            let [q, k] = ["q_proj", "k_proj"].map(|n| g.linear(x, n, 8));
            let v = g.linear(x, "v_proj", 24);
            let [decay, beta] = ["d_proj", "e_proj"].map(|n| g.linear(x, n, 6));
            let y = g.gated_delta((q, k, v), decay, beta, (2, 6), (4, 4), tiled);
            g.linear(y, "ssm_out", 16)
        })
    };
    let how = Rotated { grouped: true, ..HOW };
    let (tiled, grouped) = (delta(true), delta(false));
    let rotated = rotate(tiled.clone(), &matrices(&tiled, &["blk.0.ssm_out.weight"], &how)).expect("it can be");
    let transposes: Vec<_> =
        rotated.plan.ops.iter().filter_map(|op| if let Op::Transpose(t) = op { Some((t.rows, t.columns)) } else { None }).collect();
    assert_eq!(transposes, [(3, 2)]);
    let rotated = rotate(grouped.clone(), &matrices(&grouped, &["blk.0.ssm_out.weight"], &how)).expect("it can be");
    assert!(!kinds(&rotated).contains(&"transpose"));
    let error = rotate(tiled.clone(), &matrices(&tiled, &["blk.0.q_proj.weight"], &how)).expect_err("16 numbers are no value heads");
    assert!(error.to_string().contains("blk.0.q_proj.weight"), "{error}");
}

#[test]
fn tables_are_turned_back() {
    let model = model(|_, x| x);
    let table = id(&model, "token_embd.weight");
    let tables = [(table, plain(16))].into_iter().collect();
    let both = Rotations { matrices: [(table, Rotated { rotation: plain(16), grouped: false })].into_iter().collect(), tables };
    let rotated = rotate(model.clone(), &both).expect("it can be");
    assert_eq!(kinds(&rotated), ["embed", "hadamard", "select", "hadamard", "linear"]);
    let inverse: Vec<_> = rotated.plan.ops.iter().filter_map(|op| if let Op::Hadamard(h) = op { Some(h.inverse) } else { None }).collect();
    assert_eq!(inverse, [true, false]);
    let only = |matrices, tables| rotate(model.clone(), &Rotations { matrices, tables }).expect_err("half of it").to_string();
    assert!(only(both.matrices.clone(), Default::default()).contains("token_embd.weight"));
    assert!(only(Default::default(), both.tables.clone()).contains("token_embd.weight"));
}

#[test]
fn paths_that_cannot_turn_are_refused() {
    let shifted = model(|g, x| {
        let x = g.with_weight(x, Binary::Add, "shift.bias");
        two_products(g, x)
    });
    let refused = |model: &Model, names: &[&str], how: &Rotated| {
        rotate(model.clone(), &matrices(model, names, how)).expect_err("it cannot be").to_string()
    };
    let error = refused(&shifted, &["blk.0.shift.bias"], &HOW);
    assert!(error.contains("blk.0.shift.bias") && error.contains("add_weight"), "{error}");
    for block in [0, 3, 32] {
        let error = refused(&shifted, &["blk.0.a_proj.weight"], &Rotated { rotation: plain(block), grouped: false });
        assert!(error.contains(&format!("blocks of {block} ")), "{error}");
    }
    let experts = model(|g, x| {
        let logits = g.linear(x, "r_proj", 4);
        let route = g.route(logits, Route { normalize: true, ..Route::new(2, Score::Softmax) });
        g.experts(x, route, &ExpertsSpec::new(4, 8, Function::Silu))
    });
    let [gate, up, down] = ["gate", "up", "down"].map(|n| format!("blk.0.ffn_{n}_exps.weight"));
    let rotated = rotate(experts.clone(), &matrices(&experts, &[&gate, &up, &down], &HOW)).expect("it can be");
    assert_eq!(kinds(&rotated)[2..5], ["route", "hadamard", "experts"]);
    assert!(rotated.plan.ops.iter().any(|op| matches!(op, Op::Experts(e) if e.rotation == Some(plain(8)))));
    assert!(refused(&experts, &[&up], &HOW).contains(&up));
    let wide = Rotated { rotation: plain(16), grouped: false };
    assert!(refused(&experts, &[&down], &wide).contains("blocks of 16"));
}
