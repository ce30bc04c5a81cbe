//! Target `command`: any line as an operator might type it.

use crate::bench;
use ::command::{Access, Registry};
use control::commands::App;
use control::yaml::Settings;
use std::cell::RefCell;
use std::rc::Rc;

struct Bench {
    app: App,
    registry: Registry<App>,
}

thread_local! {
    static BENCH: RefCell<Bench> = RefCell::new(Bench {
        app: App::new(Rc::new(RefCell::new(bench::router())), Settings::default()),
        registry: control::commands::registry().expect("the commands fit together"),
    });
}

/// The first byte says what is done with the line and where the cursor stands.
pub fn run(data: &[u8]) {
    let Some((first, line)) = data.split_first() else { return };
    let line = String::from_utf8_lossy(line);
    BENCH.with_borrow_mut(|b| {
        let Bench { app, registry } = b;
        if let Err(e) = registry.check(&line) {
            shown(&e.render(&line));
        }
        let completion = registry.complete(&line, usize::from(*first).min(line.len() + 3), app);
        assert!(completion.start <= line.len(), "a completion starts within the line");
        let _ = registry.help(&line, app);
        if let Ok(layers) = drivers::generator::parse_words(&line) {
            let _ = layers.check();
        }
        // Whoever may only look runs every command that looks; the others are refused.
        match registry.run(app, Access::Read, &line) {
            Ok(output) => {
                // Streams take their time; lists are made whole.
                if let Err(output) = output.into_stream() {
                    let _ = output.whole(app, command::asks_json(&line));
                }
            }
            Err(e) => shown(&e.render(&line)),
        }
    });
}

fn shown(text: &str) {
    assert!(!text.trim().is_empty(), "an error says something");
}
