//! Places, forks, snapshots and rollbacks, against sequences that are kept as plain lists.

use crate::toy::{Toy, limits};
use onebit_engine::cache::{Cache, Full, Place, Snapshot};
use onebit_plan::{Batch, Executable, Limits, Span};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Action {
    /// With the beginning of another and some more.
    Open(usize, usize, Vec<u32>),
    Extend(usize, Vec<u32>),
    Fork(usize),
    Snapshot(usize),
    Rollback(usize, usize),
    /// Whether it stays.
    Remember(usize, bool),
    Release(usize),
}

fn action() -> impl Strategy<Value = Action> {
    let some = 0usize..64;
    // Of two letters, so that the same pages come again, after the same beginnings and after others.
    prop_oneof![
        3 => (some.clone(), some.clone(), prop::collection::vec(2u32..4, 0..6)).prop_map(|(i, n, t)| Action::Open(i, n, t)),
        8 => (some.clone(), prop::collection::vec(2u32..4, 1..9)).prop_map(|(i, t)| Action::Extend(i, t)),
        3 => some.clone().prop_map(Action::Fork),
        2 => some.clone().prop_map(Action::Snapshot),
        2 => (some.clone(), some.clone()).prop_map(|(i, j)| Action::Rollback(i, j)),
        4 => (some.clone(), any::<bool>()).prop_map(|(i, stay)| Action::Remember(i, stay)),
        2 => some.prop_map(Action::Release),
    ]
}

struct Entry {
    place: Place,
    tokens: Vec<u32>,
    snapshots: Vec<(Snapshot, usize)>,
}

fn write(toy: &mut Toy, place: &mut Place, tokens: &[u32]) {
    let span = Span { len: tokens.len(), start: place.len(), pages: place.pages(), slot: place.slot(), outputs: 0 };
    toy.step(&Batch::text(tokens, &[span])).unwrap();
    place.advance(tokens.len());
}

/// `plain` is without fixed states.
fn run(limits: Limits, actions: Vec<Action>, plain: bool) -> Result<(), TestCaseError> {
    let (mut toy, world) = Toy::new(limits.clone());
    toy.plain = plain;
    let mut cache = Cache::with_fixed(&limits, !plain);
    let mut ever: Vec<Vec<u32>> = vec![vec![]];
    let mut entries: Vec<Entry> = Vec::new();
    for action in actions {
        let n = entries.len();
        match action {
            Action::Open(i, n, more) => {
                // Also of sequences that are gone, whose pages may still be known.
                let old = &ever[i % ever.len()];
                let tokens = [&old[..n.min(old.len())], &more].concat();
                let free = cache.free_pages();
                if let Ok(mut place) = cache.open(&tokens, tokens.len()) {
                    cache.recall(&mut place, &mut *toy);
                    prop_assert!(place.branch() == 0 || place.branch() > place.len());
                    prop_assert!(place.len() <= tokens.len() && place.len() % limits.page == 0);
                    prop_assert_eq!(place.pages().len(), cache.pages_for(tokens.len()));
                    let tokens = tokens[..place.len()].to_vec();
                    entries.push(Entry { place, tokens, snapshots: vec![] });
                } else {
                    prop_assert!(
                        cache.free_pages() == free && (cache.pages_for(tokens.len()) > free || cache.used_slots() == limits.slots)
                    );
                }
            }
            Action::Extend(i, tokens) if n > 0 => {
                let entry = &mut entries[i % n];
                let free = cache.free_pages();
                let pages = entry.place.pages().to_vec();
                match cache.reserve(&mut entry.place, tokens.len(), &mut *toy) {
                    Ok(()) => {
                        write(&mut toy, &mut entry.place, &tokens);
                        entry.tokens.extend(tokens);
                        cache.publish(&mut entry.place, &entry.tokens);
                        ever.push(entry.tokens.clone());
                    }
                    Err(Full) => {
                        // Nothing was changed, and it really was too much: a copy of one page is the most that is not seen here.
                        prop_assert_eq!((cache.free_pages(), entry.place.pages()), (free, &pages[..]));
                        let needed = cache.pages_for(entry.tokens.len() + tokens.len()) + 1
                            - pages.len().min(cache.pages_for(entry.tokens.len() + tokens.len()));
                        prop_assert!(needed > free);
                    }
                }
            }
            Action::Fork(i) if n > 0 => {
                let used = cache.used_pages();
                if let Ok(place) = cache.fork(&entries[i % n].place, &mut *toy) {
                    prop_assert_eq!(cache.used_pages(), used, "a fork takes no pages");
                    let tokens = entries[i % n].tokens.clone();
                    entries.push(Entry { place, tokens, snapshots: vec![] });
                }
            }
            Action::Snapshot(i) if n > 0 => {
                let entry = &mut entries[i % n];
                if let Ok(snapshot) = cache.snapshot(&entry.place, &mut *toy) {
                    entry.snapshots.push((snapshot, entry.tokens.len()));
                }
            }
            Action::Rollback(i, j) if n > 0 => {
                let entry = &mut entries[i % n];
                if !entry.snapshots.is_empty() {
                    let j = j % entry.snapshots.len();
                    cache.rollback(&mut entry.place, &entry.snapshots[j].0, &mut *toy);
                    entry.tokens.truncate(entry.snapshots[j].1);
                    // Those of a future that is no more.
                    for (snapshot, _) in entry.snapshots.drain(j + 1..) {
                        cache.discard(snapshot);
                    }
                    prop_assert_eq!(entry.place.pages().len(), cache.pages_for(entry.tokens.len()));
                }
            }
            Action::Remember(i, stay) if n > 0 => cache.remember(&mut entries[i % n].place, stay, &mut *toy),
            Action::Release(i) if n > 0 => {
                let entry = entries.swap_remove(i % n);
                entry.snapshots.into_iter().for_each(|(s, _)| cache.discard(s));
                cache.release(entry.place);
            }
            _ => {}
        }
        for entry in &entries {
            let (tokens, hash) = toy.read(entry.place.pages(), entry.place.len(), entry.place.slot());
            prop_assert_eq!(tokens.into_iter().collect::<Option<Vec<u32>>>(), Some(entry.tokens.clone()));
            if !entry.tokens.is_empty() && !plain {
                // A step would compare the slot with the pages; here with a sequence that was never interrupted.
                let (mut fresh, _) = Toy::new(limits.clone());
                let mut other = Cache::new(&limits);
                let mut place = other.open(&entry.tokens, 0).unwrap();
                write(&mut fresh, &mut place, &entry.tokens);
                prop_assert_eq!(fresh.read(&[], 0, place.slot()).1, hash);
            }
        }
    }
    prop_assert_eq!(world.with(|c| c.wrong.clone()), Vec::<String>::new());
    for entry in entries {
        entry.snapshots.into_iter().for_each(|(s, _)| cache.discard(s));
        cache.release(entry.place);
    }
    prop_assert_eq!((cache.used_pages(), cache.used_slots()), (0, 0));
    prop_assert_eq!(cache.free_pages(), limits.pages);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn places_hold_what_was_written(actions in prop::collection::vec(action(), 1..80), page in 1usize..6, pages in 1usize..24, slots in 1usize..9, plain in any::<bool>()) {
        run(limits(64, page, pages.max(80usize.div_ceil(page) * 4 / 5), slots), actions, plain)?;
    }
}

#[test]
fn a_shared_page_is_copied_by_the_first_that_writes() {
    let limits = limits(16, 4, 8, 4);
    let (mut toy, _) = Toy::new(limits.clone());
    let mut cache = Cache::new(&limits);
    let mut a = cache.open(&[0; 6], 0).unwrap();
    write(&mut toy, &mut a, &[2, 3, 4, 5, 6, 7]);
    let mut b = cache.fork(&a, &mut *toy).unwrap();
    assert_eq!((a.pages(), cache.used_pages()), (b.pages(), 2));
    cache.reserve(&mut b, 1, &mut *toy).unwrap();
    assert_eq!(cache.used_pages(), 3);
    assert_eq!(a.pages()[0], b.pages()[0], "a full page stays shared");
    assert_ne!(a.pages()[1], b.pages()[1]);
    let before = b.pages().to_vec();
    cache.reserve(&mut a, 1, &mut *toy).unwrap();
    cache.reserve(&mut b, 1, &mut *toy).unwrap();
    assert_eq!((cache.used_pages(), b.pages()), (3, &before[..]), "nobody shares it any more");
}

#[test]
fn full_pages_are_known_until_they_are_needed() {
    let limits = limits(32, 4, 6, 4);
    let (mut toy, _) = Toy::new(limits.clone());
    toy.plain = true;
    let mut cache = Cache::new(&limits);
    let tokens = |salt: u32, n: u32| -> Vec<u32> { (0..n).map(|i| 2 + salt + i).collect() };
    let mut put = |cache: &mut Cache, tokens: &[u32]| {
        let mut place = cache.open(tokens, tokens.len()).unwrap();
        let known = place.len();
        if known < tokens.len() {
            write(&mut toy, &mut place, &tokens[known..]);
        }
        cache.publish(&mut place, tokens);
        (known, place)
    };
    let (known, a) = put(&mut cache, &tokens(0, 10));
    assert_eq!(known, 0);
    // While it runs, another takes over its two full pages, and not the third.
    let (known, b) = put(&mut cache, &tokens(0, 12));
    assert_eq!((known, &a.pages()[..2], cache.used_pages()), (8, &b.pages()[..2], 4));
    // As far as it is asked to.
    let c = cache.open(&tokens(0, 8), 7).unwrap();
    assert_eq!((c.len(), cache.used_pages()), (4, 5));
    cache.release(c);
    // What comes before counts: the same tokens after others, or at the beginning, are others.
    let c = cache.open(&tokens(0, 12)[4..8], 4).unwrap();
    assert_eq!(c.len(), 0);
    cache.release(c);
    cache.release(a);
    cache.release(b);
    // Nobody has them, and they are known.
    let (known, a) = put(&mut cache, &tokens(0, 12));
    assert_eq!(known, 12);
    cache.release(a);
    // Three of six pages are not known; with two more the end of the known ones goes first.
    let (_, other) = put(&mut cache, &tokens(30, 16));
    let again = cache.open(&tokens(0, 8), 8).unwrap();
    assert_eq!(again.len(), 8);
    cache.release(again);
    cache.release(other);
    assert_eq!(cache.open(&tokens(0, 12), 12).map(|p| p.len()), Ok(8));
    cache.forget();
    assert_eq!(cache.open(&tokens(30, 8), 8).map(|p| p.len()), Ok(0));
}

#[test]
fn fixed_states_are_taken_over_where_they_were_remembered() {
    let limits = limits(32, 4, 12, 5);
    let (mut toy, world) = Toy::new(limits.clone());
    let mut cache = Cache::with_fixed(&limits, true);
    let tokens: Vec<u32> = (0..14).map(|i| 2 + i).collect();
    let open = |cache: &mut Cache, toy: &mut Toy, tokens: &[u32], marks: &[(usize, bool)]| {
        let mut place = cache.open(tokens, tokens.len()).unwrap();
        cache.recall(&mut place, toy);
        let known = (place.len(), place.branch());
        for (mark, stay) in marks.iter().copied().chain([(tokens.len(), true)]) {
            let from = place.len();
            write(toy, &mut place, &tokens[from..mark]);
            cache.publish(&mut place, tokens);
            cache.remember(&mut place, stay, toy);
        }
        (known, place)
    };
    // After 8 and after 12 of 14 tokens, the second in place of the first.
    let (known, a) = open(&mut cache, &mut toy, &tokens, &[(8, false), (12, false)]);
    assert_eq!(known, (0, 0));
    cache.release(a);
    // Pages are known up to 12, states only there; so one that leaves the way after 9 tokens begins anew, and remembers where it left.
    let other = [&tokens[..9], &[40, 41, 42]].concat();
    let (known, b) = open(&mut cache, &mut toy, &other, &[(8, true)]);
    assert_eq!(known, (0, 8));
    cache.release(b);
    let third = [&tokens[..9], &[30, 31]].concat();
    let (known, c) = open(&mut cache, &mut toy, &third, &[]);
    assert_eq!(known, (8, 0));
    cache.release(c);
    let (known, d) = open(&mut cache, &mut toy, &[&tokens[..], &[7]].concat(), &[]);
    assert_eq!(known, (12, 0));
    cache.release(d);
    // Where the slots are needed for running sequences, those that hold states are used, the oldest first; none is lost.
    let places: Vec<Place> = (0..5).map(|i| cache.open(&[i + 2], 0).unwrap()).collect();
    assert!(cache.open(&[9], 0).is_err());
    places.into_iter().for_each(|place| cache.release(place));
    assert_eq!(cache.open(&tokens, 14).map(|place| (place.len(), place.branch())), Ok((0, 12)));
    assert_eq!(world.with(|c| c.wrong.clone()), Vec::<String>::new());
}
