//! Markdown on a terminal, while it streams: what models write most, as CommonMark reads it.
//!
//! Text is given out as soon as it is sure what it is: letters at once, marks when the character behind them is there, the
//! beginning of a line when it can be no other block, the rows of a table when the table is over. Marks that turn a style on
//! or off are left out (within words of ASCII there are none: `2**10`); all else stays, so that what is on the screen can be copied: fences, links, entities.

use crate::terminal::plain;
use unicode_width::UnicodeWidthStr;

const RESET: &str = "\x1b[0m";
const DIM: &str = "\x1b[2m";
const CODE: &str = "\x1b[36m";
/// Bytes of a line's beginning that may wait; what is longer is a paragraph.
const START: usize = 128;
/// Rows of a table that may wait.
const ROWS: usize = 200;

/// Styles of text within a paragraph.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Style {
    bold: bool,
    italic: bool,
    struck: bool,
    /// The backticks that opened it; 0 outside.
    code: usize,
    heading: bool,
}

impl Style {
    fn escape(self) -> String {
        let mut out = String::from("\x1b[0");
        for (on, code) in
            [(self.bold || self.heading, ";1"), (self.italic, ";3"), (self.struck, ";9"), (self.code > 0, ";36"), (self.heading, ";35")]
        {
            if on {
                out.push_str(code);
            }
        }
        out.push('m');
        out
    }
}

/// Where in a line the text is.
#[derive(Debug)]
enum Place {
    /// At its beginning, of which this is not sure yet.
    Start(String),
    /// In text with styles.
    Text,
    /// In a line of code that may close it: white space and marks only.
    FenceStart(String),
    /// In a line of code.
    Code,
    /// In a row of a table.
    Row(String),
}

/// Marks in text, until it is known what is behind them.
#[derive(Debug, Default)]
struct Run {
    mark: char,
    count: usize,
    /// The character before it.
    before: Option<char>,
}

/// Takes Markdown as it comes, and gives what is to be written to the terminal.
#[derive(Debug)]
pub(crate) struct Markdown {
    styled: bool,
    place: Place,
    /// Mark and length of what opened the code that the text is in.
    fence: Option<(char, usize)>,
    style: Style,
    run: Run,
    escaped: bool,
    last: Option<char>,
    table: Vec<String>,
    out: String,
}

/// What a line begins with.
#[derive(Debug, PartialEq)]
enum Block<'a> {
    Unsure,
    Heading,
    Fence(char, usize),
    Bullet { indent: usize, rest: &'a str },
    Numbered { marker: &'a str, rest: &'a str },
    Quote(&'a str),
    Rule,
    Row,
    Text,
}

/// Reads the beginning of a line; at its end, which is `whole`, nothing is unsure.
fn block(line: &str, whole: bool) -> Block<'_> {
    let text = line.trim_start_matches(' ');
    let indent = line.len() - text.len();
    let Some(first) = text.chars().next() else { return if whole { Block::Text } else { Block::Unsure } };
    let count = text.chars().take_while(|c| *c == first).count();
    // All of these marks are single bytes.
    let rest = &text[count * first.len_utf8()..];
    let unsure_or = |block| if whole { block } else { Block::Unsure };
    let dashes = |mark: char| text.trim_end().chars().filter(|c| *c == mark).count() >= 3 && text.chars().all(|c| c == mark || c == ' ');
    match first {
        '#' if count <= 6 => match rest.chars().next() {
            None => unsure_or(Block::Heading),
            Some(' ') => Block::Heading,
            Some(_) => Block::Text,
        },
        '`' | '~' if count >= 3 => match first == '`' && rest.contains('`') {
            true => Block::Text,
            false => unsure_or(Block::Fence(first, count)),
        },
        '`' | '~' if rest.is_empty() => unsure_or(Block::Text),
        '>' => match text[1..].strip_prefix(' ') {
            Some(inner) => Block::Quote(inner),
            None if text.len() == 1 => unsure_or(Block::Quote("")),
            None => Block::Quote(&text[1..]),
        },
        '-' | '*' | '_' if whole && dashes(first) => Block::Rule,
        // It may become a rule yet: `- - -`, `***`.
        '-' | '*' | '_' if !whole && text.chars().all(|c| c == first || c == ' ') => Block::Unsure,
        '-' | '*' | '+' => match text[1..].strip_prefix(' ') {
            Some(rest) => Block::Bullet { indent, rest },
            None if text.len() == 1 => unsure_or(Block::Text),
            None => Block::Text,
        },
        '0'..='9' => {
            let digits = text.bytes().take_while(u8::is_ascii_digit).count();
            let marker = digits + 1;
            match (text.as_bytes().get(digits), text.as_bytes().get(marker)) {
                _ if digits > 9 => Block::Text,
                (None, _) | (Some(b'.' | b')'), None) => unsure_or(Block::Text),
                (Some(b'.' | b')'), Some(b' ')) => Block::Numbered { marker: &line[..indent + marker], rest: &text[marker + 1..] },
                _ => Block::Text,
            }
        }
        '|' => Block::Row,
        _ => Block::Text,
    }
}

impl Markdown {
    /// For a terminal with styles; without them text passes through as it is.
    pub(crate) fn new(styled: bool) -> Self {
        Self {
            styled,
            place: Place::Start(String::new()),
            fence: None,
            style: Style::default(),
            run: Run::default(),
            escaped: false,
            last: None,
            table: vec![],
            out: String::new(),
        }
    }

    /// The next piece of the text. Gives what can be written by now.
    pub(crate) fn push(&mut self, text: &str) -> String {
        if !self.styled {
            return text.to_string();
        }
        for c in plain(text).chars() {
            self.take(c);
        }
        std::mem::take(&mut self.out)
    }

    /// The end of the text. Gives what waited, and resets the terminal.
    pub(crate) fn finish(&mut self) -> String {
        if self.styled {
            self.end_line();
            self.flush_table();
            self.out.push_str(RESET);
        }
        *self = Self { out: std::mem::take(&mut self.out), ..Self::new(self.styled) };
        std::mem::take(&mut self.out)
    }

    fn take(&mut self, c: char) {
        if c == '\n' {
            self.end_line();
            if !matches!(self.place, Place::Row(_)) {
                self.out.push('\n');
            }
            self.place = match self.fence {
                Some(_) => Place::FenceStart(String::new()),
                None => Place::Start(String::new()),
            };
            return;
        }
        match &mut self.place {
            Place::Start(held) => {
                held.push(c);
                let held = std::mem::take(held);
                self.start(held, false);
            }
            Place::Text => self.inline(c),
            Place::FenceStart(held) => {
                held.push(c);
                if !held.trim_start_matches(' ').chars().all(|c| Some(c) == self.fence.map(|f| f.0) || c == ' ') || held.len() > START {
                    self.out.push_str(CODE);
                    self.out.push_str(held);
                    self.place = Place::Code;
                }
            }
            Place::Code => self.out.push(c),
            Place::Row(held) => held.push(c),
        }
    }

    /// Goes on with a line of which only the beginning is there, or all of it.
    fn start(&mut self, held: String, whole: bool) {
        let block = match block(&held, whole) {
            Block::Unsure if held.len() < START => {
                self.place = Place::Start(held);
                return;
            }
            Block::Unsure => Block::Text,
            block => block,
        };
        if block != Block::Row {
            self.flush_table();
        }
        if held.trim().is_empty() || !matches!(block, Block::Text) {
            // A new paragraph: what was left open is closed.
            self.restyle(Style::default());
        }
        self.place = Place::Text;
        self.last = None;
        match block {
            Block::Heading => {
                self.restyle(Style { heading: true, ..Style::default() });
                self.text(&held);
            }
            Block::Fence(mark, count) => {
                self.fence = Some((mark, count));
                self.out.push_str(&format!("{DIM}{held}{RESET}"));
            }
            Block::Bullet { indent, rest } => {
                self.out.push_str(&format!("{}{DIM}•{RESET} ", " ".repeat(indent)));
                self.again(rest, whole);
            }
            Block::Numbered { marker, rest } => {
                self.out.push_str(&format!("{DIM}{marker}{RESET} "));
                self.again(rest, whole);
            }
            Block::Quote(rest) => {
                self.out.push_str(&format!("{DIM}│{RESET} "));
                self.again(rest, whole);
            }
            Block::Rule => self.out.push_str(&format!("{DIM}{}{RESET}", "─".repeat(40))),
            Block::Row => self.place = Place::Row(held),
            Block::Text | Block::Unsure => self.text(&held),
        }
    }

    /// What is behind a mark of a list or a quotation begins like a line.
    fn again(&mut self, rest: &str, whole: bool) {
        if whole || !rest.is_empty() {
            // Tables are found at the beginning of lines only.
            if block(rest, whole) == Block::Row { self.text(rest) } else { self.start(rest.to_string(), whole) }
        } else {
            self.place = Place::Start(String::new());
        }
    }

    fn end_line(&mut self) {
        match std::mem::replace(&mut self.place, Place::Text) {
            Place::Start(held) if !held.is_empty() => self.start(held, true),
            Place::Start(_) => {
                self.flush_table();
                self.restyle(Style::default());
            }
            Place::FenceStart(held) => {
                let marks = held.trim();
                let closes = self.fence.is_some_and(|(_, count)| marks.chars().count() >= count);
                if closes {
                    self.fence = None;
                }
                self.out.push_str(&if closes { format!("{DIM}{held}{RESET}") } else { format!("{CODE}{held}{RESET}") });
                return;
            }
            Place::Code => {
                self.out.push_str(RESET);
                return;
            }
            row @ Place::Row(_) => self.place = row,
            Place::Text => {}
        }
        if let Place::Row(row) = &mut self.place {
            self.table.push(std::mem::take(row));
            if self.table.len() >= ROWS {
                self.flush_table();
            }
            return;
        }
        self.end_run(None);
        if std::mem::take(&mut self.escaped) {
            self.out.push('\\');
        }
        if self.style.heading {
            self.restyle(Style::default());
        }
        // A line's break is white space to what follows.
        self.last = Some('\n');
    }

    fn text(&mut self, text: &str) {
        text.chars().for_each(|c| self.inline(c));
    }

    fn inline(&mut self, c: char) {
        if std::mem::take(&mut self.escaped) {
            if !c.is_ascii_punctuation() {
                self.out.push('\\');
            }
            self.write(c);
            return;
        }
        if self.run.count > 0 {
            if c == self.run.mark {
                self.run.count += 1;
                return;
            }
            self.end_run(Some(c));
        }
        match c {
            '`' => self.run = Run { mark: c, count: 1, before: self.last },
            '*' | '_' | '~' if self.style.code == 0 => self.run = Run { mark: c, count: 1, before: self.last },
            '\\' if self.style.code == 0 => self.escaped = true,
            _ => self.write(c),
        }
    }

    fn write(&mut self, c: char) {
        self.out.push(c);
        self.last = Some(c);
    }

    fn restyle(&mut self, style: Style) {
        if style != self.style {
            self.style = style;
            self.out.push_str(&style.escape());
        }
    }

    /// Does what a run of marks means, with this character behind it (section 6.2 of CommonMark 0.31).
    fn end_run(&mut self, after: Option<char>) {
        let Run { mark, mut count, before } = std::mem::take(&mut self.run);
        if count == 0 {
            return;
        }
        let mut style = self.style;
        if mark == '`' {
            match style.code {
                0 => style.code = count,
                open if open == count => style.code = 0,
                _ => {
                    (0..count).for_each(|_| self.write(mark));
                    return;
                }
            }
            self.restyle(style);
            // Code is a letter to the marks around it.
            self.last = Some('`');
            return;
        }
        let space = |c: Option<char>| c.is_none_or(char::is_whitespace);
        let sign =
            |c: Option<char>| c.is_some_and(|c| c.is_ascii_punctuation() || (!c.is_alphanumeric() && !c.is_whitespace() && !c.is_ascii()));
        let left = !space(after) && (!sign(after) || space(before) || sign(before));
        let right = !space(before) && (!sign(before) || space(after) || sign(after));
        // `5*4` and `2**10` are meant as they are far more often than as the beginning of emphasis within a word.
        let letter = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        let opens = left && (mark != '_' || !right || sign(before)) && !(letter(before) && letter(after));
        let closes = right && (mark != '_' || !left || sign(after));
        if mark == '~' {
            if count == 2 && (if style.struck { closes } else { opens }) {
                style.struck = !style.struck;
                self.restyle(style);
            } else {
                (0..count).for_each(|_| self.write(mark));
            }
            self.last = Some(mark);
            return;
        }
        let was = count;
        while count > 0 {
            let (bold, italic) = (style.bold, style.italic);
            if closes && bold && count >= 2 && !(italic && count == 3) {
                (style.bold, count) = (false, count - 2);
            } else if closes && italic {
                (style.italic, count) = (false, count - 1);
            } else if opens && !bold && count >= 2 {
                (style.bold, count) = (true, count - 2);
            } else if opens && !italic {
                (style.italic, count) = (true, count - 1);
            } else {
                break;
            }
        }
        if count < was {
            self.restyle(style);
        }
        (0..count).for_each(|_| self.write(mark));
        self.last = Some(mark);
    }

    /// Writes the rows that wait, in columns where they are a table.
    fn flush_table(&mut self) {
        let rows = std::mem::take(&mut self.table);
        if rows.is_empty() {
            return;
        }
        let cells: Vec<Vec<String>> = rows.iter().map(|row| cells(row)).collect();
        let is_line = |row: &[String]| row.iter().all(|cell| cell.contains('-') && cell.chars().all(|c| matches!(c, '-' | ':')));
        let columns = cells.first().map_or(0, Vec::len);
        if rows.len() < 2 || !is_line(&cells[1]) || cells[1].len() != columns {
            // Lines of text that begin with a bar.
            for row in rows {
                self.last = None;
                self.text(&row);
                self.end_run(None);
                self.out.push('\n');
            }
            return;
        }
        let shown: Vec<Vec<(String, usize)>> = cells.iter().map(|row| row.iter().map(|cell| shown(cell)).collect()).collect();
        let width = |column: usize| {
            let widths = shown.iter().enumerate().filter(|(i, _)| *i != 1).filter_map(|(_, row)| row.get(column));
            widths.map(|cell| cell.1).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for (i, row) in shown.iter().enumerate() {
            if i == 1 {
                let line: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                self.out.push_str(&format!("{DIM}{}{RESET}\n", line.join("─┼─")));
                continue;
            }
            for (column, width) in widths.iter().enumerate() {
                if column > 0 {
                    self.out.push_str(&format!("{DIM} │ {RESET}"));
                }
                let (text, taken) = row.get(column).map_or(("", 0), |(text, taken)| (text.as_str(), *taken));
                let free = width.saturating_sub(taken);
                let align = cells[1].get(column).map_or("", String::as_str);
                let before = match (align.starts_with(':') && align.len() > 1, align.ends_with(':')) {
                    (true, true) => free / 2,
                    (false, true) => free,
                    _ => 0,
                };
                let after = if column + 1 < columns { free - before } else { 0 };
                let text = if i == 0 { format!("\x1b[0;1m{text}{RESET}") } else { text.to_string() };
                self.out.push_str(&format!("{}{text}{}", " ".repeat(before), " ".repeat(after)));
            }
            self.out.push('\n');
        }
    }
}

/// The cells of a row, without the bars around them.
fn cells(row: &str) -> Vec<String> {
    let row = row.trim();
    let row = row.strip_prefix('|').unwrap_or(row);
    let row = row.strip_suffix('|').filter(|rest| !rest.ends_with('\\')).unwrap_or(row);
    let (mut out, mut cell, mut escaped) = (vec![], String::new(), false);
    for c in row.chars() {
        match c {
            '|' if !escaped => out.push(std::mem::take(&mut cell).trim().to_string()),
            '|' => {
                cell.pop();
                cell.push(c);
            }
            _ => cell.push(c),
        }
        escaped = c == '\\' && !escaped;
    }
    out.push(cell.trim().to_string());
    out
}

/// A cell with its styles, and how many columns of the terminal it takes.
fn shown(cell: &str) -> (String, usize) {
    let mut inner = Markdown::new(true);
    inner.place = Place::Text;
    inner.text(cell);
    inner.end_run(None);
    if inner.style != Style::default() {
        inner.restyle(Style::default());
    }
    let width = without_styles(&inner.out).width();
    (inner.out, width)
}

/// A text without the escapes that this file writes.
fn without_styles(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, escape)) = rest.split_once("\x1b[") {
        out.push_str(before);
        rest = escape.split_once('m').map_or("", |(_, rest)| rest);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

    fn whole(text: &str) -> String {
        let mut markdown = Markdown::new(true);
        markdown.push(text) + &markdown.finish()
    }

    fn visible(text: &str) -> String {
        without_styles(&whole(text))
    }

    /// Each visible character with its styles, of what was written: letters for bold, italic, struck and code.
    fn styles(text: &str) -> Vec<(char, String)> {
        let (mut out, mut now, mut rest) = (vec![], String::new(), text);
        while !rest.is_empty() {
            if let Some(escape) = rest.strip_prefix("\x1b[") {
                let (codes, after) = escape.split_once('m').expect("a whole escape");
                now.clear();
                for (code, letter) in [("1", 'b'), ("3", 'i'), ("9", 's'), ("36", 'c')] {
                    if codes.split(';').any(|c| c == code) {
                        now.push(letter);
                    }
                }
                rest = after;
            } else {
                let c = rest.chars().next().expect("a character");
                out.push((c, now.clone()));
                rest = &rest[c.len_utf8()..];
            }
        }
        out
    }

    /// The same of what pulldown-cmark reads.
    fn reference(text: &str) -> Vec<(char, String)> {
        let (mut out, mut on) = (vec![], [0; 3]);
        let letters = |on: &[i32; 3], more: &str| {
            let kept = on.iter().zip(["b", "i", "s"]).filter(|(n, _)| **n > 0).map(|(_, letter)| letter);
            kept.collect::<String>() + more
        };
        for event in Parser::new_ext(text, Options::ENABLE_STRIKETHROUGH) {
            match event {
                Event::Start(Tag::Strong) => on[0] += 1,
                Event::End(TagEnd::Strong) => on[0] -= 1,
                Event::Start(Tag::Emphasis) => on[1] += 1,
                Event::End(TagEnd::Emphasis) => on[1] -= 1,
                Event::Start(Tag::Strikethrough) => on[2] += 1,
                Event::End(TagEnd::Strikethrough) => on[2] -= 1,
                Event::Text(text) => out.extend(text.chars().map(|c| (c, letters(&on, "")))),
                Event::Code(text) => out.extend(text.chars().map(|c| (c, letters(&on, "c")))),
                Event::SoftBreak => out.push(('\n', letters(&on, ""))),
                _ => {}
            }
        }
        out
    }

    /// Marks whose partners are there mean what CommonMark says.
    #[test]
    fn styles_are_those_of_commonmark() {
        for text in [
            "plain text",
            "**bold** and *italic* and ***both*** and `code`",
            "__bold__ and _italic_, snake_case_name stays, 2 * 3 * 4 too",
            "a__b__c a_b_c",
            "**bold *with italic* inside**",
            "*italic **with bold** inside*",
            "**bold over\ntwo lines**",
            "`a * b` and ``a ` b`` and `**no**`",
            "~~struck~~ and a~b",
            "escaped \\*stars\\* and \\a",
            "(**bold**) \"*italic*\", **bold**.",
            "**`code`** in bold",
            "ein **Wort**, 日本**語**です, **é**",
            "a \\\\ b",
            "** not bold ** and * not italic *",
        ] {
            let ours: Vec<_> = styles(whole(text).strip_suffix(RESET).expect("a reset at the end"));
            assert_eq!(ours, reference(text), "{text:?}");
        }
    }

    /// Where CommonMark would wait for a partner that may never come, within words of ASCII, marks stay.
    #[test]
    fn products_keep_their_signs() {
        for text in ["5*4 = 20", "2**10 = 1024", "a*b*c", "x~y~~z"] {
            assert_eq!(visible(text), text);
        }
    }

    /// However a text is cut, the same is written.
    #[test]
    fn pieces_do_not_matter() {
        let text = "# Head *line*\n\nSome **bold\ntext** with `code` and snake_case.\n\n- one\n- two **2**\n  1. three\n> quoted *text*\n\n\
                    ```rust\nfn main() { /* ** */ }\n\n  ``\n```\n---\n| a | **b** |\n|---|--:|\n| 1 | 2 |\nend *open\n\n日本語 `x";
        let expected = whole(text);
        for size in 1..7 {
            let mut markdown = Markdown::new(true);
            let characters: Vec<char> = text.chars().collect();
            let mut written: String = characters.chunks(size).map(|piece| markdown.push(&piece.iter().collect::<String>())).collect();
            written += &markdown.finish();
            assert_eq!(written, expected, "{size}");
        }
    }

    #[test]
    fn blocks() {
        assert_eq!(visible("# Title\ntext"), "# Title\ntext");
        assert!(whole("## Title\ntext").starts_with("\x1b[0;1;35m## Title\x1b[0m\n"));
        assert_eq!(visible("#hashtag"), "#hashtag");
        assert_eq!(visible("- a\n* b\n+ c\n  - d"), "• a\n• b\n• c\n  • d");
        assert_eq!(visible("1. a\n2) b\n1.5 and 7"), "1. a\n2) b\n1.5 and 7");
        assert_eq!(visible("> a\n>b\n> - c"), "│ a\n│ b\n│ • c");
        assert_eq!(visible("a\n\n---\nb"), format!("a\n\n{}\nb", "─".repeat(40)));
        assert_eq!(visible("-5 degrees\n--flag"), "-5 degrees\n--flag");
        assert_eq!(visible("**bold** first\n***\n"), format!("bold first\n{}\n", "─".repeat(40)));
    }

    #[test]
    fn code_is_left_as_it_is() {
        let code = "```python\nx = a ** b  # *no*\n~~~\n``\n\n    `y`\n```\nafter";
        assert_eq!(visible(code), code);
        assert!(whole(code).contains(&format!("{CODE}x = a ** b  # *no*{RESET}\n")));
        // A longer fence is not closed by a shorter one.
        assert_eq!(visible("````\n```\n*a*\n````\n*b*"), "````\n```\n*a*\n````\nb");
        assert_eq!(visible("a ```b``` c"), "a b c");
    }

    #[test]
    fn tables_are_set_in_columns() {
        let table = "before\n| name | n |\n|:--|--:|\n| **long** name | 5 |\n| 日本 | 12 |\nafter";
        let shown = "before\nname      │  n\n──────────┼───\nlong name │  5\n日本      │ 12\nafter";
        assert_eq!(visible(table), shown);
        assert_eq!(visible("| no table\ntext"), "| no table\ntext");
        assert_eq!(cells("| a \\| b | c |"), ["a | b", "c"]);
    }

    #[test]
    fn what_a_model_writes_does_not_drive_the_terminal() {
        assert_eq!(visible("a\x1b[2Jb"), "a\\u{1b}[2Jb");
        let mut plain = Markdown::new(false);
        assert_eq!(plain.push("**as** it `is`\n") + &plain.finish(), "**as** it `is`\n");
    }

    /// Letters are not kept back, and marks only until the character behind them.
    #[test]
    fn text_comes_at_once() {
        let mut markdown = Markdown::new(true);
        assert_eq!(markdown.push("He"), "He");
        assert_eq!(markdown.push("llo *"), "llo ");
        assert_eq!(markdown.push("w"), "\x1b[0;3mw");
    }
}
