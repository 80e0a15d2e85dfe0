//! What messages hold: one text, or a list of parts, some of which are images. Templates know the one, the other, or both.

use super::{ChatTemplate, Render};
use serde_json::{Value as Json, json};

/// What a template makes of contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents {
    /// It takes one text.
    pub text: bool,
    /// It takes a list of parts.
    pub parts: bool,
    /// It writes the mark of an image where a part is one.
    pub images: bool,
}

impl ChatTemplate {
    /// What it makes of contents, found by trying. `mark` is what stands for an image in prompts of the model, if it sees any.
    pub fn contents(&self, mark: Option<&str>) -> Contents {
        // A word that no template writes by itself.
        const WORD: &str = "zyxwvu";
        let render = |content: Json| self.render(&json!([{ "role": "user", "content": content }]), &Render::default());
        let shows = |content: Json, wanted: &str| render(content).is_ok_and(|text| text.matches(wanted).count() == 1);
        let word = || json!({ "type": "text", "text": WORD });
        // Some write a list as it is, in Python's form or JSON's.
        let as_is = |text: &str| text.contains("'type'") || text.contains("\"type\"");
        let parts = shows(json!([word()]), WORD) && !render(json!([word()])).is_ok_and(|text| as_is(&text));
        let images = mark.is_some_and(|mark| parts && shows(json!([{ "type": "image" }, word()]), mark));
        // One that cannot be tried is taken for the usual kind.
        Contents { text: !parts || shows(json!(WORD), WORD), parts, images }
    }
}

impl Contents {
    /// One text, and nothing else.
    pub const TEXT: Self = Self { text: true, parts: false, images: false };

    /// Gives each message the content that the template takes: parts where it takes no text, and one text, with `bare` for each image
    /// and a line break between parts, where it takes no parts or knows no images.
    pub fn fit(&self, messages: &mut Json, bare: &str) {
        for content in messages.as_array_mut().into_iter().flatten().filter_map(|message| message.get_mut("content")) {
            match content {
                Json::String(text) if !self.text && self.parts => *content = json!([{ "type": "text", "text": text }]),
                Json::Array(parts) => {
                    let is_image = |part: &Json| part["type"] == "image";
                    if self.parts && (self.images || (!self.text && !parts.iter().any(is_image))) {
                        continue;
                    }
                    let text =
                        |part: &Json| if is_image(part) { bare.to_string() } else { part["text"].as_str().unwrap_or_default().into() };
                    let text = parts.iter().map(text).collect::<Vec<String>>().join("\n");
                    *content = if self.text { text.into() } else { json!([{ "type": "text", "text": text }]) };
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "{% for m in messages %}<{{ m.content }}>{% endfor %}";
    const PARTS: &str = "{% for m in messages %}{% if m.content[0]['type'] == 'image' %}{{ ':' }}{% else %}{{ ': ' }}{% endif %}\
        {% for c in m.content %}{% if c.type == 'text' %}{{ c.text }}{% elif c.type == 'image' %}<image>{% endif %}{% endfor %}{% endfor %}";
    const BOTH: &str = "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}\
        {% for c in m.content %}{% if c.type == 'image' %}<image>{% else %}{{ c.text }}{% endif %}{% endfor %}{% endif %}{% endfor %}";

    fn contents(template: &str) -> Contents {
        ChatTemplate::new(template, "", "").unwrap().contents(Some("<image>"))
    }

    #[test]
    fn templates_are_known_by_trying() {
        assert_eq!(contents(TEXT), Contents { text: true, parts: false, images: false });
        assert_eq!(contents(PARTS), Contents { text: false, parts: true, images: true });
        assert_eq!(contents(BOTH), Contents { text: true, parts: true, images: true });
        assert!(!ChatTemplate::new(BOTH, "", "").unwrap().contents(None).images);
    }

    #[test]
    fn contents_become_what_is_taken() {
        let parts = json!([{ "type": "image" }, { "type": "text", "text": "what?" }]);
        let messages = json!([{ "role": "system", "content": "s" }, { "role": "user", "content": parts }]);
        for (template, rendered) in [(TEXT, "<s><(<image>)\nwhat?>"), (PARTS, ": s:<image>what?"), (BOTH, "s<image>what?")] {
            let mut messages = messages.clone();
            contents(template).fit(&mut messages, "(<image>)");
            let text = ChatTemplate::new(template, "", "").unwrap().render(&messages, &Render::default()).unwrap();
            assert_eq!(text, rendered);
        }
    }
}
