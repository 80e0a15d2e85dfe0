//! What can be told of a grammar beforehand: which rules recurse, and whether the next character always tells what comes next.

use super::{Expr, Rules, Set};

/// Rounds in which what follows each rule is found out; more than any grammar needs that people write.
const ROUNDS: usize = 64;
/// Rules of a grammar that is looked at more closely.
const RULES: usize = 512;

pub(super) struct Shape {
    /// Of each rule, whether it is without recursion and tokens, so that a regular expression can say the same.
    regular: Vec<bool>,
    /// Of each rule, whether it may stand for nothing.
    empty: Vec<bool>,
    /// Whether parts that are regular may be lexemes, each as long as can be.
    pub(super) is_predictive: bool,
}

impl Shape {
    pub(super) fn of(rules: &Rules) -> Self {
        let mut shape = Self { regular: least(rules, is_regular), empty: least(rules, may_be_empty), is_predictive: false };
        shape.is_predictive = rules.bodies.len() <= RULES && predictive(rules, &shape);
        shape
    }

    pub(super) fn is_regular(&self, expr: &Expr) -> bool {
        is_regular(expr, &self.regular)
    }

    pub(super) fn may_be_empty(&self, expr: &Expr) -> bool {
        may_be_empty(expr, &self.empty)
    }
}

/// Of which rules a property holds that follows from its holding of rules that they name. Where that goes round in a circle it does not.
fn least(rules: &Rules, holds: impl Fn(&Expr, &[bool]) -> bool) -> Vec<bool> {
    let mut known = vec![false; rules.bodies.len()];
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); rules.bodies.len()];
    for (rule, body) in rules.bodies.iter().enumerate() {
        named(body, &mut |other| users[other].push(rule));
    }
    let mut to_try: Vec<usize> = (0..rules.bodies.len()).collect();
    while let Some(rule) = to_try.pop() {
        if !known[rule] && holds(&rules.bodies[rule], &known) {
            known[rule] = true;
            to_try.extend_from_slice(&users[rule]);
        }
    }
    known
}

fn is_regular(expr: &Expr, rules: &[bool]) -> bool {
    match expr {
        Expr::Text(_) | Expr::One(_) => true,
        Expr::Rule(rule) => rules[*rule],
        Expr::Token(..) => false,
        Expr::Sequence(list) | Expr::Choice(list) => list.iter().all(|item| is_regular(item, rules)),
        Expr::Repeat(item, ..) => is_regular(item, rules),
    }
}

fn may_be_empty(expr: &Expr, rules: &[bool]) -> bool {
    match expr {
        Expr::Text(text) => text.is_empty(),
        Expr::One(_) | Expr::Token(..) => false,
        Expr::Rule(rule) => rules[*rule],
        Expr::Sequence(list) => list.iter().all(|item| may_be_empty(item, rules)),
        Expr::Choice(list) => list.iter().any(|item| may_be_empty(item, rules)),
        Expr::Repeat(item, least, _) => *least == 0 || may_be_empty(item, rules),
    }
}

fn named(expr: &Expr, each: &mut impl FnMut(usize)) {
    match expr {
        Expr::Rule(rule) => each(*rule),
        Expr::Sequence(list) | Expr::Choice(list) => list.iter().for_each(|item| named(item, each)),
        Expr::Repeat(item, ..) => named(item, each),
        Expr::Text(_) | Expr::One(_) | Expr::Token(..) => {}
    }
}

/// What texts of an expression begin with.
#[derive(Clone, Debug, Default, PartialEq)]
struct Start {
    first: Set,
    may_be_empty: bool,
    /// The characters by which a text of it may grow to be a beginning of a longer one. More than that, where it is hard to tell.
    growth: Set,
}

/// Grammars of which [`predictive`] knows what is needed.
struct Facts<'a> {
    shape: &'a Shape,
    starts: Vec<Start>,
    follows: Vec<Set>,
    fails: bool,
    changed: bool,
}

/// Whether at each place one character tells which part comes, and whether a lexeme goes on: the alternatives of a choice begin with
/// different characters, and none of them with what may follow; nothing by which a lexeme grows may follow it.
fn predictive(rules: &Rules, shape: &Shape) -> bool {
    let count = rules.bodies.len();
    let mut facts =
        Facts { shape, starts: vec![Start::default(); count], follows: vec![Set::default(); count], fails: false, changed: true };
    for _ in 0..ROUNDS {
        facts.changed = false;
        for rule in 0..count {
            let start = facts.start(&rules.bodies[rule]);
            facts.changed |= facts.starts[rule] != start;
            facts.starts[rule] = start;
        }
        if !facts.changed {
            break;
        }
    }
    let settled = !facts.changed;
    for _ in 0..ROUNDS {
        (facts.changed, facts.fails) = (false, false);
        for rule in (0..count).filter(|rule| !shape.regular[*rule] || *rule == rules.root) {
            let follow = facts.follows[rule].clone();
            facts.visit(&rules.bodies[rule], &follow);
        }
        if !facts.changed {
            return settled && !facts.fails;
        }
    }
    false
}

impl Facts<'_> {
    fn start(&self, expr: &Expr) -> Start {
        match expr {
            Expr::Text(text) => {
                let first = text.chars().next();
                Start { first: Set::of(first.map(|c| (c, c))), may_be_empty: first.is_none(), growth: Set::default() }
            }
            Expr::One(set) => Start { first: set.clone(), ..Start::default() },
            // A token may stand for any text.
            Expr::Token(..) => Start { first: Set::all(), may_be_empty: false, growth: Set::all() },
            Expr::Rule(rule) => self.starts[*rule].clone(),
            Expr::Sequence(list) => list.iter().fold(Start { may_be_empty: true, ..Start::default() }, |before, item| {
                let item = self.start(item);
                let Start { mut first, may_be_empty, growth } = before;
                if may_be_empty {
                    first.add(&item.first);
                }
                let mut next = item.growth.clone();
                if growth.meets(&item.first) {
                    // What came before may take this for its own.
                    next = Set::all();
                }
                if item.may_be_empty {
                    next.add(&growth);
                    next.add(&item.first);
                }
                Start { first, may_be_empty: may_be_empty && item.may_be_empty, growth: next }
            }),
            Expr::Choice(list) => list.iter().map(|item| self.start(item)).fold(Start::default(), |mut all, item| {
                all.growth.add(&item.growth);
                if all.first.meets(&item.first) {
                    // One may be a beginning of the other.
                    all.growth = Set::all();
                }
                if all.may_be_empty || item.may_be_empty {
                    all.growth.add(&all.first);
                    all.growth.add(&item.first);
                }
                all.first.add(&item.first);
                all.may_be_empty |= item.may_be_empty;
                all
            }),
            Expr::Repeat(item, least, most) => {
                let mut start = self.start(item);
                start.may_be_empty |= *least == 0;
                let is_unsure = *most != Some(1) && start.growth.meets(&start.first);
                start.growth.add(&start.first);
                if is_unsure {
                    start.growth = Set::all();
                }
                start
            }
        }
    }

    /// Looks at an expression that `follow` may come after.
    fn visit(&mut self, expr: &Expr, follow: &Set) {
        if self.shape.is_regular(expr) {
            return self.lexeme(expr, follow);
        }
        match expr {
            Expr::Rule(rule) => self.changed |= self.follows[*rule].add(follow),
            Expr::Token(..) => self.fails = true,
            Expr::Sequence(list) => self.visit_sequence(list, follow),
            Expr::Choice(list) => {
                let starts: Vec<Start> = list.iter().map(|item| self.start(item)).collect();
                let mut seen = Set::default();
                for start in &starts {
                    self.fails |= seen.meets(&start.first);
                    seen.add(&start.first);
                }
                let empty = starts.iter().filter(|start| start.may_be_empty).count();
                self.fails |= empty > 1 || (empty == 1 && seen.meets(follow));
                list.iter().for_each(|item| self.visit(item, follow));
            }
            Expr::Repeat(item, ..) => {
                let start = self.start(item);
                self.fails |= start.may_be_empty || start.first.meets(follow);
                let mut behind = start.first;
                behind.add(follow);
                self.visit(item, &behind);
            }
            Expr::Text(_) | Expr::One(_) => {}
        }
    }

    /// Parts that are regular and next to one another are one lexeme.
    fn visit_sequence(&mut self, list: &[Expr], follow: &Set) {
        for (run, is_regular) in runs(list, self.shape).into_iter().rev() {
            let behind = self.behind(&list[run.end..], follow);
            match is_regular {
                true => self.lexeme(&Expr::Sequence(list[run].to_vec()), &behind),
                false => self.visit(&list[run.start], &behind),
            }
        }
    }

    /// What may come where these parts are, and `follow` after them.
    fn behind(&self, rest: &[Expr], follow: &Set) -> Set {
        let mut out = Set::default();
        for item in rest {
            let start = self.start(item);
            out.add(&start.first);
            if !start.may_be_empty {
                return out;
            }
        }
        out.add(follow);
        out
    }

    fn lexeme(&mut self, expr: &Expr, follow: &Set) {
        let start = self.start(expr);
        self.fails |= start.growth.meets(follow) || (start.may_be_empty && start.first.meets(follow));
    }
}

/// The parts of a sequence: those that are regular together as far as they are next to one another, others alone.
pub(super) fn runs(list: &[Expr], shape: &Shape) -> Vec<(std::ops::Range<usize>, bool)> {
    let mut out: Vec<(std::ops::Range<usize>, bool)> = Vec::new();
    for (i, item) in list.iter().enumerate() {
        let is_regular = shape.is_regular(item);
        match out.last_mut() {
            Some((run, true)) if is_regular => run.end = i + 1,
            _ => out.push((i..i + 1, is_regular)),
        }
    }
    out
}
