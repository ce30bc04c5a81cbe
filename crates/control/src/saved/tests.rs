use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::PathBuf;

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let path = std::env::temp_dir().join(format!("quiver-saved-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Place(path)
    }

    fn open(&self) -> Folder {
        Folder::open(&self.0).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn said(kind: Kind) -> Header {
    Header {
        number: 0,
        time: 9,
        kind,
        author: Author::default(),
        comment: String::new(),
        source: String::new(),
        diff: vec!["+ route 10.0.0.0/8".into(), "~ interface loop0".into()],
        more: 0,
        commands: vec![],
        confirm: None,
        of_start: false,
    }
}

fn keep(folder: &Folder, kind: Kind, text: &str) -> u64 {
    folder.keep(&folder.prepare(said(kind), text).unwrap()).unwrap()
}

#[test]
fn what_is_kept_is_there_for_the_next_start_and_what_is_not_is_not() {
    let place = Place::new("kept");
    let folder = place.open();
    assert_eq!(fs::metadata(&place.0).unwrap().permissions().mode() & 0o7777, 0o700);
    assert!(folder.state().unwrap().is_none());
    assert_eq!(keep(&folder, Kind::Start, "a"), 1);
    // The file that a start took is not the state.
    assert!(folder.state().unwrap().is_none());
    assert_eq!(keep(&folder, Kind::Apply, "\u{feff}# b\n"), 2);
    let prepared = folder.prepare(said(Kind::Apply), "c").unwrap();
    // As after `kill -9`.
    std::mem::forget(prepared);
    drop(folder);
    let folder = place.open();
    let state = folder.state().unwrap().unwrap();
    assert_eq!((state.header.number, state.document()), (2, "# b\n"));
    assert_eq!(fs::metadata(&state.path).unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(fs::read_dir(&place.0).unwrap().count(), 2);
    drop(folder.prepare(said(Kind::Apply), "d").unwrap());
    assert_eq!(fs::read_dir(&place.0).unwrap().count(), 2);
}

#[test]
fn what_was_not_confirmed_when_the_router_ended_is_told() {
    let place = Place::new("left");
    let folder = place.open();
    let waits = || Header { confirm: Some(60), source: "/b.yaml".into(), ..said(Kind::Apply) };
    assert_eq!(keep(&folder, Kind::Start, "a"), 1);
    folder.prepare(waits(), "b").unwrap().leave();
    drop(folder);
    let mut folder = place.open();
    let (number, comment) = folder.tell_left().unwrap().unwrap();
    assert_eq!((number, &*comment), (2, "the router ended before it was confirmed: apply of /b.yaml"));
    let back = folder.read(2).unwrap();
    assert_eq!((back.header.kind, &*back.header.source, back.document()), (Kind::Back, "number 1", "a"));
    assert_eq!(back.header.author.name, "automatic");
    assert_eq!(back.header.diff, ["- route 10.0.0.0/8", "~ interface loop0"]);
    // The file of the start counts as before, and there is nothing to go back to.
    assert!(folder.state().unwrap().is_none());
    assert_eq!(folder.before_last().unwrap(), None);
    assert!(folder.tell_left().unwrap().is_none());
    // Behind a state it is the state.
    assert_eq!(keep(&folder, Kind::Apply, "c"), 3);
    folder.prepare(waits(), "d").unwrap().leave();
    drop(folder);
    let mut folder = place.open();
    assert_eq!(folder.tell_left().unwrap().unwrap().0, 4);
    let state = folder.state().unwrap().unwrap();
    assert_eq!((state.header.number, state.document()), (4, "c"));
    assert_eq!(folder.before_last().unwrap(), Some(1));
    // What was not to be confirmed, or is not whole, was not applied as far as anybody was told.
    for (header, cut) in [(said(Kind::Apply), 0), (waits(), 1)] {
        folder.prepare(header, "e").unwrap().leave();
        let file = fs::OpenOptions::new().write(true).open(place.0.join("next.tmp")).unwrap();
        file.set_len(file.metadata().unwrap().len() - cut).unwrap();
        drop(folder);
        folder = place.open();
        assert!(folder.tell_left().unwrap().is_none());
        assert!(!place.0.join("next.tmp").exists());
    }
}

#[test]
fn there_are_not_more_than_some() {
    let place = Place::new("some");
    let folder = place.open();
    for n in 0..60 {
        keep(&folder, Kind::Apply, &n.to_string());
    }
    let numbers = folder.numbers().unwrap();
    assert_eq!((numbers.len(), numbers[0], numbers[49]), (50, 60, 11));
}

#[test]
fn ways_back_push_nothing_out() {
    let place = Place::new("backs");
    let folder = place.open();
    for n in 0..5 {
        keep(&folder, Kind::Apply, &n.to_string());
    }
    for _ in 0..200 {
        folder.keep_back(said(Kind::Back)).unwrap().unwrap();
    }
    let numbers = folder.numbers().unwrap();
    assert_eq!(numbers, (196..=205).rev().chain((1..=5).rev()).collect::<Vec<_>>());
    assert_eq!((folder.before_last().unwrap(), folder.state().unwrap().unwrap().document()), (Some(4), "4"));
    // They make room for each other, and for configurations in the same way as before.
    for n in 5..60 {
        keep(&folder, Kind::Apply, &n.to_string());
    }
    let numbers = folder.numbers().unwrap();
    assert_eq!((numbers.len(), numbers[0], numbers[49]), (60, 260, 211));
}

#[test]
fn one_router_a_folder() {
    let place = Place::new("one");
    let _folder = place.open();
    assert!(matches!(Folder::open(&place.0), Err(SavedError::InUse { .. })));
}

#[test]
fn what_is_wrong_with_a_folder_or_file_is_told() {
    let place = Place::new("wrong");
    let told = |e: SavedError| e.to_string();
    assert!(told(Folder::open(&place.0.join("a/b")).unwrap_err()).contains("cannot make it"));
    fs::write(&place.0, "x").unwrap();
    assert!(told(Folder::open(&place.0).unwrap_err()).contains("cannot open it"));
    fs::remove_file(&place.0).unwrap();
    let folder = place.open();
    fs::set_permissions(&place.0, PermissionsExt::from_mode(0o770)).unwrap();
    assert!(told(Folder::open(&place.0).unwrap_err()).contains("mode 770"));
    fs::set_permissions(&place.0, PermissionsExt::from_mode(0o700)).unwrap();
    keep(&folder, Kind::Apply, "a");
    let file = place.0.join("1.yaml");
    let whole = fs::read(&file).unwrap();
    let fails = |why: &str| {
        for e in [folder.state().unwrap_err(), folder.read(1).unwrap_err()] {
            let text = told(e);
            assert!(text.contains("1.yaml") && text.contains(why), "{text}");
        }
    };
    fs::set_permissions(&file, PermissionsExt::from_mode(0o666)).unwrap();
    fails("mode 666");
    fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    if rustix::process::geteuid().is_root() {
        chown(&file, Some(4242), None).unwrap();
        fails("user 4242");
        chown(&file, Some(0), None).unwrap();
    }
    fs::write(&file, &whole[..whole.len() - 1]).unwrap();
    fails("0 bytes in the place of 1");
    fs::write(&file, "").unwrap();
    fails("empty");
    fs::write(&file, "loopbacks: {}\n").unwrap();
    fails("does not begin with");
    fs::rename(&file, place.0.join("3.yaml")).unwrap();
    fs::write(place.0.join("3.yaml"), &whole).unwrap();
    assert!(told(folder.state().unwrap_err()).contains("number 1"));
    fs::remove_file(place.0.join("3.yaml")).unwrap();
    fs::create_dir(&file).unwrap();
    fails("not a regular file");
    fs::remove_dir(&file).unwrap();
    symlink("/dev/zero", &file).unwrap();
    fails("symbolic links");
    fs::remove_file(&file).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &file, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    fails("not a regular file");
    fs::remove_file(&file).unwrap();
    let large = fs::File::create(&file).unwrap();
    large.set_len(1 << 40).unwrap();
    fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    fails("more than a document may have");
    assert!(told(folder.read(7).unwrap_err()).contains("number 7"));
}
