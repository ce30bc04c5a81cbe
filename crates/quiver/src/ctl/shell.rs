//! The shell: line editing, history, Tab and `?`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use reedline::{
    ColumnarMenu, DefaultPrompt, DefaultPromptSegment, EditCommand, Emacs, FileBackedHistory, KeyCode,
    KeyModifiers, MenuBuilder, Reedline, ReedlineEvent, ReedlineMenu, Signal, default_emacs_keybindings,
};
use serde_json::json;

use super::complete::Completer;
use super::link::{Failure, Link};
use super::pager::Pager;

/// Lines of history kept.
const HISTORY: usize = 2000;
const MENU: &str = "words";
/// What the editor hands out when `?` is pressed.
const ASK: &str = "?";

/// Reads and runs lines until the operator leaves.
pub fn run(mut link: Link, pager: bool) -> Result<(), Failure> {
    // Say at once when there is no router, not after the first line.
    link.connect()?;
    let (interrupted, json) = (link.interrupted.clone(), link.json());
    let caught = signal_hook::flag::register(signal_hook::consts::SIGINT, interrupted.clone());
    caught.map_err(|error| Failure::Said(format!("cannot catch Ctrl-C: {error}")))?;
    let link = Arc::new(Mutex::new(link));
    let mut editor = editor(&link);
    let prompt =
        DefaultPrompt::new(DefaultPromptSegment::Basic("quiver".to_owned()), DefaultPromptSegment::Empty);
    loop {
        let signal = editor.read_line(&prompt);
        match signal.map_err(|error| Failure::Said(format!("cannot read from the terminal: {error}")))? {
            Signal::Success(line) => match line.trim() {
                "" => {}
                "quit" | "exit" | "q" => return Ok(()),
                line => {
                    interrupted.store(false, Ordering::Relaxed);
                    match paged(&link, line, &interrupted, pager) {
                        Ok(()) => {}
                        Err(Failure::Closed) => return Err(Failure::Closed),
                        Err(Failure::Interrupted) => show("\n")?,
                        Err(Failure::Unsuccessful) => {}
                        Err(failure) => show(&format!("{}\n", failure.told(json).unwrap_or_default()))?,
                    }
                }
            },
            Signal::HostCommand(asked) if asked == ASK => question(&mut editor, &link)?,
            Signal::CtrlD => return Ok(()),
            _ => {}
        }
    }
}

/// Runs a line and shows the answer, a screenful at a time. The answer is taken in while the operator reads: a router
/// does not wait for a reader for long.
fn paged(link: &Mutex<Link>, line: &str, interrupted: &AtomicBool, pager: bool) -> Result<(), Failure> {
    let (sender, texts) = mpsc::channel::<String>();
    thread::scope(|scope| {
        let running = scope.spawn(move || {
            let mut link = link.lock().map_err(|_| Failure::Closed)?;
            link.run(line, &mut |text| {
                sender.send(text.to_owned()).map_err(|_| io::ErrorKind::BrokenPipe.into())
            })
        });
        let (mut pager, mut shown) = (Pager::new(pager), Ok(true));
        for text in texts {
            shown = pager.show(&text);
            if !matches!(shown, Ok(true)) {
                interrupted.store(true, Ordering::Relaxed);
                break;
            }
        }
        let result = running.join().unwrap_or(Err(Failure::Closed));
        interrupted.store(false, Ordering::Relaxed);
        match shown {
            Ok(true) => result,
            Ok(false) => Ok(()),
            Err(_) => Err(Failure::Closed),
        }
    })
}

fn show(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|_| Failure::Closed)
}

/// `?`: shows what may stand at the cursor and goes on with the same line; between quotes it is a character.
fn question(editor: &mut Reedline, link: &Arc<Mutex<Link>>) -> Result<(), Failure> {
    let line = editor.current_buffer_contents();
    let line = line.get(..editor.current_insertion_point()).unwrap_or(line).to_owned();
    if command::in_quotes(&line) {
        editor.run_edit_commands(&[EditCommand::InsertChar('?')]);
        return Ok(());
    }
    let request = json!({ "id": 1, "help": line });
    let reply = match link.lock() {
        Ok(mut link) => link.ask(&request, &mut |_| Ok(())),
        Err(_) => return Err(Failure::Closed),
    };
    match reply {
        Ok(reply) => show(&format!("?\n{}", reply["text"].as_str().unwrap_or_default())),
        Err(failure) => show(&format!("?\n{}\n", failure.text().unwrap_or_default())),
    }
}

fn editor(link: &Arc<Mutex<Link>>) -> Reedline {
    let mut keys = default_emacs_keybindings();
    let complete = vec![ReedlineEvent::Menu(MENU.to_owned()), ReedlineEvent::MenuNext];
    keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, ReedlineEvent::UntilFound(complete));
    for modifiers in [KeyModifiers::NONE, KeyModifiers::SHIFT] {
        keys.add_binding(modifiers, KeyCode::Char('?'), ReedlineEvent::ExecuteHostCommand(ASK.to_owned()));
    }
    let menu = ColumnarMenu::default().with_name(MENU).with_columns(4);
    let editor = Reedline::create()
        .with_completer(Box::new(Completer(link.clone())))
        .use_bracketed_paste(true)
        .with_quick_completions(true)
        .with_partial_completions(true)
        .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
        .with_edit_mode(Box::new(Emacs::new(keys)))
        .with_ansi_colors(std::env::var_os("NO_COLOR").is_none());
    // Without a home or the right to write there the history lasts as long as the shell.
    match history_file().and_then(|path| FileBackedHistory::with_file(HISTORY, path).ok()) {
        Some(history) => editor.with_history(Box::new(history)),
        None => editor,
    }
}

fn history_file() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    Some(state.or_else(home)?.join("quiver/history"))
}
