//! `quiver-dpdk.so`: where it is, and that it is the right one. It is loaded once for the process, when a device of DPDK is first named.
#![allow(unsafe_code)]
// Upholds: the table of calls is used only after its version and all sizes were seen to be this side's; the library is never unloaded.

use super::abi::{Api, SIZES, VERSION};
use std::ffi::{CStr, CString, OsStr, c_void};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Its file.
const FILE: &str = "quiver-dpdk.so";
/// Where the package puts it.
const FOLDER: &str = "/usr/lib/quiver";
/// Names its file, or the folder, in place of the usual ones.
const VARIABLE: &str = "QUIVER_DPDK";
const TABLE: &CStr = c"quiver_dpdk_api";
/// What helps where it is not there.
const BUILD: &str = "install libdpdk-dev, and build it with scripts/dpdk";

/// The library, as it stands in memory for good.
pub struct Library {
    /// Its calls.
    pub api: &'static Api,
    /// Its file.
    pub file: PathBuf,
}

// SAFETY: calls and a text that never change.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// The DPDK that it was built for.
    pub fn dpdk(&self) -> String {
        // SAFETY: a literal of the library.
        unsafe { CStr::from_ptr(self.api.dpdk) }.to_string_lossy().into_owned()
    }
}

static LOADED: OnceLock<Library> = OnceLock::new();
static LOADING: Mutex<()> = Mutex::new(());

/// The library, where it was loaded already.
pub fn loaded() -> Option<&'static Library> {
    LOADED.get()
}

/// Loads it, which may take long. One that could not be loaded is looked for again the next time.
///
/// # Errors
/// It is not there or another version's: what to install, and what builds it.
pub fn load() -> Result<&'static Library, String> {
    let _one = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(library) = LOADED.get() {
        return Ok(library);
    }
    let own = std::env::current_exe().ok();
    let named = std::env::var_os(VARIABLE);
    let library = open(&find(&places(named.as_deref(), own.as_deref()))?)?;
    Ok(LOADED.get_or_init(|| library))
}

/// Where it may be, the first place first.
fn places(named: Option<&OsStr>, binary: Option<&Path>) -> Vec<PathBuf> {
    match named.filter(|n| !n.is_empty()) {
        Some(named) if Path::new(named).is_dir() => vec![Path::new(named).join(FILE)],
        Some(named) => vec![named.into()],
        None => {
            let beside = binary.and_then(Path::parent).map(|folder| folder.join(FILE));
            beside.into_iter().chain([Path::new(FOLDER).join(FILE)]).collect()
        }
    }
}

fn find(places: &[PathBuf]) -> Result<PathBuf, String> {
    places.iter().find(|p| p.is_file()).cloned().ok_or_else(|| {
        let all: Vec<String> = places.iter().map(|p| p.display().to_string()).collect();
        format!(
            "DPDK needs {FILE}, which is not there ({}): {BUILD}, or say in {VARIABLE} where it is",
            all.join(", ")
        )
    })
}

fn open(file: &Path) -> Result<Library, String> {
    let shown = file.display();
    // One that cannot be read gives a plainer reason than the loader's.
    File::open(file).map_err(|e| format!("cannot read {shown}: {e}"))?;
    let name =
        CString::new(file.as_os_str().as_bytes()).map_err(|_| format!("{shown} is no name of a file"))?;
    // SAFETY: a text that ends; what the library does as it is loaded is the operator's to answer for, as with any library.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        return Err(format!(
            "cannot load {shown}: {}: install DPDK's libraries (librte-ethdev23 and the drivers' librte-net-*), or {BUILD}",
            why()
        ));
    }
    // SAFETY: the handle was just opened.
    let table = unsafe { libc::dlsym(handle, TABLE.as_ptr()) };
    match check(table.cast_const()) {
        Ok(api) => Ok(Library { api, file: file.to_owned() }),
        Err(why) => {
            // SAFETY: nothing of it is used any more.
            unsafe { libc::dlclose(handle) };
            Err(format!("{shown} {why}: {BUILD}"))
        }
    }
}

/// The loader's reason.
fn why() -> String {
    // SAFETY: answers a text that is good until the next call of this thread, or nothing.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "no reason is given".into();
    }
    // SAFETY: as just said.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

fn check(table: *const c_void) -> Result<&'static Api, String> {
    if table.is_null() {
        return Err("is no library for Quiver".into());
    }
    // SAFETY: whatever its version, the table begins with it.
    let version = unsafe { table.cast::<u32>().read() };
    if version != VERSION {
        return Err(format!("has version {version} of its interface, and this Quiver needs {VERSION}"));
    }
    // SAFETY: tables of this version have the sizes behind it.
    let sizes = unsafe { table.cast::<u32>().add(1).cast::<[u32; SIZES.len()]>().read() };
    if sizes != SIZES {
        return Err("was built for another Quiver".into());
    }
    // SAFETY: version and sizes are this side's, and the library stays.
    Ok(unsafe { &*table.cast::<Api>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_looked_for_where_the_operator_says() {
        let own = Path::new("/opt/bin/quiver");
        assert_eq!(
            places(None, Some(own)),
            [Path::new("/opt/bin/quiver-dpdk.so"), Path::new("/usr/lib/quiver/quiver-dpdk.so")]
        );
        assert_eq!(places(Some("/tmp/my.so".as_ref()), Some(own)), [Path::new("/tmp/my.so")]);
        assert_eq!(places(Some("/tmp".as_ref()), Some(own)), [Path::new("/tmp/quiver-dpdk.so")]);
        let missing = find(&[PathBuf::from("/nowhere/quiver-dpdk.so")]).unwrap_err();
        assert!(missing.contains("/nowhere/quiver-dpdk.so") && missing.contains("scripts/dpdk"), "{missing}");
    }

    #[test]
    fn another_version_is_refused() {
        let mut table = vec![0u32; size_of::<Api>() / 4];
        table[0] = VERSION + 1;
        let refused = check(table.as_ptr().cast()).err().unwrap();
        assert!(refused.contains(&format!("version {}", VERSION + 1)), "{refused}");
        table[0] = VERSION;
        table[1..9].copy_from_slice(&SIZES);
        table[3] += 8;
        assert_eq!(check(table.as_ptr().cast()).err().as_deref(), Some("was built for another Quiver"));
        assert!(check(std::ptr::null()).is_err());
        let no = open(Path::new("/proc/self/exe")).err().unwrap();
        assert!(no.starts_with("cannot load /proc/self/exe"), "{no}");
    }
}
