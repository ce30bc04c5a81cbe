//! Who has changed something by commands: lines of the log, what `show command history` tells, and the authors that a save names.
//!
//! Words come without secrets. However fast commands come, they make few lines: what is beyond that is counted, and told
//! within a second.

use crate::saved::{Author, Commands, plain};
use command::NOBODY;
use net::router::LogLine;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Commands that are kept, and refused ones: who may only look pushes nothing out of what was done.
const DONE: usize = 1000;
const REFUSED: usize = 200;
/// In a window of this time so many commands of each outcome are told one by one, and so many of one author.
const WINDOW: Duration = Duration::from_secs(1);
const LINES: usize = 40;
const LINES_OF_ONE: usize = 10;
/// Authors whose further commands are counted in a window each by themselves, and so many for a save.
const COUNTED: usize = 16;

/// Who gives commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Who {
    /// User, and from where.
    pub author: Author,
    /// What they may do.
    pub role: &'static str,
}

impl Who {
    /// The same user with the same rights, from wherever.
    fn is(&self, other: &Who) -> bool {
        let key = |w: &Who| (w.author.user, w.role);
        key(self) == key(other) && self.author.name == other.author.name
    }

    fn words(&self) -> String {
        let Author { user, name, from } = &self.author;
        let who = if name.is_empty() { "user" } else { name };
        let from = if from.is_empty() { String::new() } else { format!(", {from}") };
        format!("{who} (uid {user}, role {}{from})", self.role)
    }
}

/// What became of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Done,
    /// Whoever gave it left before it had ended.
    Left,
    /// It was refused for the rights of who gave it, for this reason.
    Refused(String),
}

impl Outcome {
    /// In a word.
    pub fn name(&self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::Left => "left",
            Outcome::Refused(_) => "refused",
        }
    }

    /// Its place among the windows.
    fn window(&self) -> usize {
        match self {
            Outcome::Done => 0,
            Outcome::Left => 1,
            Outcome::Refused(_) => 2,
        }
    }
}

/// A command that is kept, with those after it that were only counted.
#[derive(Clone, Debug)]
pub struct Entry {
    /// From 1; in the order in which they were told.
    pub number: u64,
    /// Seconds since 1970, UTC.
    pub time: u64,
    /// Who gave it.
    pub who: Rc<Who>,
    /// The command, without secrets.
    pub words: String,
    /// What became of it.
    pub outcome: Outcome,
    /// How many commands it stands for: itself, and others of the same author and outcome after it.
    pub count: u64,
}

/// Those of a window that are only counted, since some moment.
struct Counted {
    since: Instant,
    entry: Entry,
}

/// When it began, and whose commands were told in it, or only counted.
struct Window {
    began: Instant,
    told: Vec<(Rc<Who>, usize)>,
    counted: Vec<Counted>,
}

impl Window {
    fn new(began: Instant) -> Window {
        Window { began, told: vec![], counted: vec![] }
    }
}

struct Kept {
    done: VecDeque<Entry>,
    refused: VecDeque<Entry>,
    last: u64,
    /// One of each outcome: who may only look takes no room from what is done.
    windows: [Window; 3],
    /// Whose commands have changed what runs since it was saved.
    unsaved: Vec<Commands>,
}

/// What is kept of commands.
pub struct Trail {
    log: Rc<dyn Fn(&LogLine)>,
    kept: RefCell<Kept>,
}

impl Trail {
    /// Nothing yet. What is told goes to this log.
    pub fn new(log: Rc<dyn Fn(&LogLine)>) -> Trail {
        Trail {
            log,
            kept: RefCell::new(Kept {
                done: VecDeque::new(),
                refused: VecDeque::new(),
                last: 0,
                windows: std::array::from_fn(|_| Window::new(Instant::now())),
                unsaved: vec![],
            }),
        }
    }

    /// Takes in `count` commands, of which the first has these words. `logged` ones have a line of the log and an entry of the history of their
    /// own. On a `LocalSet`.
    pub fn note(self: &Rc<Self>, who: &Rc<Who>, words: &str, count: usize, outcome: Outcome, logged: bool) {
        if self.take(who, words, count, outcome, logged, Instant::now()) {
            let trail = Rc::clone(self);
            tokio::task::spawn_local(async move {
                tokio::time::sleep(WINDOW).await;
                trail.flush(Instant::now());
            });
        }
    }

    /// Whether [`Trail::flush`] must be called when the window ends.
    fn take(
        &self,
        who: &Rc<Who>,
        words: &str,
        count: usize,
        outcome: Outcome,
        logged: bool,
        now: Instant,
    ) -> bool {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs());
        let count = count as u64;
        let mut kept = self.kept.borrow_mut();
        let kept = &mut *kept;
        if outcome == Outcome::Done && !logged {
            kept.unsaved(&who.author, count);
        }
        let begins = kept.windows.iter().all(|w| w.counted.is_empty());
        let Some(window) = kept.windows.get_mut(outcome.window()) else { return false };
        if window.counted.is_empty() && now.saturating_duration_since(window.began) >= WINDOW {
            *window = Window::new(now);
        }
        let told: usize = window.told.iter().map(|(_, n)| n).sum();
        let own = window.told.iter_mut().find(|(w, _)| w.is(who));
        if count == 1 && told < LINES && own.as_ref().is_none_or(|(_, n)| *n < LINES_OF_ONE) {
            match own {
                Some((_, n)) => *n += 1,
                None => window.told.push((Rc::clone(who), 1)),
            }
            let words = plain(words);
            let entry = Entry { number: 0, time, who: Rc::clone(who), words, outcome, count };
            if !(logged && entry.outcome == Outcome::Done) {
                (self.log)(&line(&entry, None));
            }
            kept.keep(entry);
            return false;
        }
        let same = |c: &Counted| c.entry.who.is(who) && c.entry.outcome == outcome;
        let full = window.counted.len() >= COUNTED;
        let at = window.counted.iter().position(same).or(if full { Some(COUNTED - 1) } else { None });
        match at.and_then(|at| window.counted.get_mut(at)) {
            Some(counted) => {
                if !counted.entry.who.is(who) {
                    counted.entry.who = Rc::new(Who { role: who.role, author: several() });
                }
                counted.entry.count += count;
            }
            None => {
                let words = plain(words);
                let entry = Entry { number: 0, time, who: Rc::clone(who), words, outcome, count };
                window.counted.push(Counted { since: now, entry });
            }
        }
        begins
    }

    /// Tells of those that were only counted.
    pub fn flush(&self, now: Instant) {
        let mut kept = self.kept.borrow_mut();
        let windows = std::mem::replace(&mut kept.windows, std::array::from_fn(|_| Window::new(now)));
        for Counted { since, entry } in windows.into_iter().flat_map(|w| w.counted) {
            (self.log)(&line(&entry, Some(now.saturating_duration_since(since))));
            kept.keep(entry);
        }
    }

    /// What is kept, the oldest first.
    pub fn entries(&self) -> Vec<Entry> {
        let kept = self.kept.borrow();
        let mut all: Vec<Entry> = kept.done.iter().chain(&kept.refused).cloned().collect();
        all.sort_by_key(|e| e.number);
        all
    }

    /// Whose commands have changed what runs since it was saved.
    pub fn unsaved(&self) -> Vec<Commands> {
        self.kept.borrow().unsaved.clone()
    }

    /// What runs was saved.
    pub fn saved(&self) {
        self.kept.borrow_mut().unsaved.clear();
    }
}

impl Drop for Trail {
    fn drop(&mut self) {
        self.flush(Instant::now());
    }
}

/// More authors than are told apart: no user's.
fn several() -> Author {
    Author { user: NOBODY, name: "several".into(), from: String::new() }
}

fn line(e: &Entry, within: Option<Duration>) -> LogLine {
    let (who, words) = (e.who.words(), &e.words);
    let more = match e.count - 1 {
        0 => String::new(),
        more => {
            let s = within.unwrap_or_default().as_secs_f64().ceil().max(1.0);
            format!(", and {more} more within {s} s")
        }
    };
    match &e.outcome {
        Outcome::Done => LogLine { warn: false, text: format!("command: {who}: {words}{more}") },
        Outcome::Left => {
            LogLine { warn: false, text: format!("command: {who}, who left before it ended: {words}{more}") }
        }
        Outcome::Refused(why) => {
            LogLine { warn: true, text: format!("command refused: {who}: {words}{more}: {why}") }
        }
    }
}

impl Kept {
    fn keep(&mut self, mut entry: Entry) {
        self.last += 1;
        entry.number = self.last;
        let (to, most) = match entry.outcome {
            Outcome::Refused(_) => (&mut self.refused, REFUSED),
            _ => (&mut self.done, DONE),
        };
        to.push_back(entry);
        if to.len() > most {
            to.pop_front();
        }
    }

    fn unsaved(&mut self, author: &Author, count: u64) {
        let known = |c: &Commands| (c.user, &c.name) == (author.user, &author.name);
        if let Some(known) = self.unsaved.iter_mut().find(|c| known(c)) {
            known.count += count;
            return;
        }
        let author = if self.unsaved.len() < COUNTED { author } else { &several() };
        match self.unsaved.get_mut(COUNTED) {
            Some(others) => others.count += count,
            None => {
                self.unsaved.push(Commands { user: author.user, name: author.name.clone(), count });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(user: u32) -> Rc<Who> {
        let author = Author { user, name: format!("u{user}"), from: "pts/3, quiver[7]".into() };
        Rc::new(Who { author, role: "configure" })
    }

    fn trail() -> (Trail, Rc<RefCell<Vec<String>>>) {
        let lines = Rc::new(RefCell::new(vec![]));
        let to = Rc::clone(&lines);
        (Trail::new(Rc::new(move |l: &LogLine| to.borrow_mut().push(l.text.clone()))), lines)
    }

    #[test]
    fn few_commands_are_told_one_by_one_and_many_are_counted() {
        let (trail, lines) = trail();
        let (one, now) = (who(7), Instant::now());
        assert!(!trail.take(&one, "ip route add 10.0.0.0/8 via 192.0.2.1", 1, Outcome::Done, false, now));
        let refused = Outcome::Refused("this takes the role `configure`".into());
        assert!(!trail.take(&one, "save", 1, refused, true, now));
        assert_eq!(
            *lines.borrow(),
            [
                "command: u7 (uid 7, role configure, pts/3, quiver[7]): ip route add 10.0.0.0/8 via 192.0.2.1",
                "command refused: u7 (uid 7, role configure, pts/3, quiver[7]): save: this takes the role `configure`",
            ]
        );
        // What has a line of its own gets no other.
        assert!(!trail.take(&one, "save", 1, Outcome::Done, true, now));
        assert_eq!((lines.borrow().len(), trail.entries().len()), (2, 3));
        lines.borrow_mut().clear();
        let mut begun = 0;
        for n in 0..100_000 {
            begun += usize::from(trail.take(&one, &format!("add {n}"), 1, Outcome::Done, false, now));
        }
        assert!(trail.take(&who(8), "a script", 512, Outcome::Done, false, now) == (begun == 0));
        assert_eq!((begun, lines.borrow().len()), (1, LINES_OF_ONE - 2));
        trail.flush(now + WINDOW);
        let told = lines.borrow();
        let more = told.iter().find(|l| l.contains("more")).unwrap();
        assert!(more.ends_with("add 8, and 99991 more within 1 s"), "{more}");
        assert!(told.last().unwrap().ends_with(": a script, and 511 more within 1 s"), "{told:?}");
        let sum: u64 = trail.entries().iter().map(|e| e.count).sum();
        assert_eq!(sum, 100_000 + 512 + 3);
        let unsaved: Vec<_> = trail.unsaved().into_iter().map(|c| (c.name, c.count)).collect();
        assert_eq!(unsaved, [("u7".to_owned(), 100_001), ("u8".to_owned(), 512)]);
        trail.saved();
        assert!(trail.unsaved().is_empty());
        // The next window has its own lines.
        drop(told);
        lines.borrow_mut().clear();
        trail.take(&one, "again", 1, Outcome::Done, false, now + WINDOW);
        assert_eq!(lines.borrow().len(), 1);
    }

    #[test]
    fn refusals_take_no_room_from_what_is_done() {
        let (trail, _) = trail();
        let now = Instant::now();
        for user in 100..200 {
            for _ in 0..100 {
                trail.take(&who(user), "save", 1, Outcome::Refused("no".into()), false, now);
            }
        }
        trail.take(&who(7), "a script", 2, Outcome::Left, false, now);
        trail.take(&who(7), "a script", 512, Outcome::Done, false, now);
        trail.take(&who(7), "add 1", 1, Outcome::Done, false, now);
        trail.flush(now + WINDOW);
        let all = trail.entries();
        let refused: u64 = all.iter().filter(|e| e.outcome.name() == "refused").map(|e| e.count).sum();
        assert_eq!(refused, 10_000);
        let own: Vec<_> = all.iter().filter(|e| e.who.author.user == 7).collect();
        let own: Vec<_> = own.iter().map(|e| (e.words.as_str(), e.outcome.name(), e.count)).collect();
        assert_eq!(own, [("add 1", "done", 1), ("a script", "done", 512), ("a script", "left", 2)]);
        let several = all.iter().find(|e| e.who.author.name == "several").unwrap();
        assert_eq!((several.who.author.user, several.outcome.name()), (NOBODY, "refused"));
    }

    #[test]
    fn one_user_has_one_share_from_however_many_places() {
        let (trail, lines) = trail();
        let now = Instant::now();
        for pid in 0..100 {
            let mut one = Who::clone(&who(7));
            one.author.from = format!("quiver[{pid}]");
            trail.take(&Rc::new(one), "add", 1, Outcome::Done, false, now);
        }
        assert_eq!(lines.borrow().len(), LINES_OF_ONE);
        trail.flush(now + WINDOW);
        let all = trail.entries();
        let last = all.last().unwrap();
        assert_eq!((last.count, last.who.author.from.as_str()), (90, "quiver[10]"));
    }

    #[test]
    fn many_authors_and_commands_take_bounded_room() {
        let (trail, lines) = trail();
        let mut now = Instant::now();
        for round in 0..100 {
            for user in 0..200 {
                trail.take(&who(user), &"x".repeat(9000), 1, Outcome::Done, false, now);
                trail.take(&who(user), "y", 1, Outcome::Refused("no".into()), false, now);
            }
            now += WINDOW;
            trail.flush(now);
            assert!(lines.borrow().len() <= (round + 1) * 2 * (LINES + COUNTED), "{round}");
        }
        let all = trail.entries();
        assert!(all.len() <= DONE + REFUSED && all.iter().all(|e| e.words.len() < 500));
        assert!(all.iter().filter(|e| e.outcome == Outcome::Done).count() > REFUSED);
        assert_eq!(trail.unsaved().len(), COUNTED + 1);
        assert_eq!(trail.unsaved().iter().map(|c| c.count).sum::<u64>(), 20_000);
        assert!(all.windows(2).all(|w| w[0].number < w[1].number));
    }
}
