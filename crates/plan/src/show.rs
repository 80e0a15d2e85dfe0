//! How a plan is printed (`1bit show --plan`).

use crate::{Kind, Plan, Rows, State};
use std::fmt;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "plan {} · {} layers · vocabulary {} · context {}", self.name, self.layers, self.vocabulary, self.context)?;
        for (i, state) in self.states.iter().enumerate() {
            match state {
                State::Kv { heads, key, value, window } => {
                    write!(f, "  s{i}: kv {heads} heads, key {key}, value {value}")?;
                    writeln!(f, "{}", window.map_or(String::new(), |w| format!(", window {w}")))?;
                }
                State::Fixed { shape } => writeln!(f, "  s{i}: fixed {shape:?}")?,
            }
        }
        let mut layer = None;
        let encoder = self.encoder();
        for (i, (op, of)) in self.ops.iter().zip(&self.op_layers).enumerate() {
            if encoder > 0 && (i == 0 || i == encoder) {
                writeln!(f, "{}", if i == 0 { "encoder" } else { "decoder" })?;
                layer = None;
            }
            if *of != layer {
                layer = *of;
                if let Some(l) = layer {
                    writeln!(f, "layer {l}")?;
                } else {
                    writeln!(f, "end of layers")?;
                }
            }
            let out = self.value(op.output());
            let rows = if out.rows == Rows::Outputs { "outputs" } else { "tokens" };
            let kind = if out.kind == Kind::Route { " route" } else { "" };
            let args: Vec<String> = op.inputs().iter().map(|v| format!("v{}", v.0)).collect();
            write!(f, "  v{} = {}({})", op.output().0, op.name(), args.join(", "))?;
            for w in op.weights() {
                let info = self.weight(w);
                write!(f, " {} {} {:?}", info.name, info.ty, info.shape)?;
            }
            if let Some(s) = op.state() {
                write!(f, " s{}", s.0)?;
            }
            let note = op.operator().note();
            if !note.is_empty() {
                write!(f, " {note}")?;
            }
            writeln!(f, " -> [{rows}, {}]{kind}", out.width)?;
        }
        Ok(())
    }
}
