//! One value of each type: how features share what they have without being named here.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Values by their type, each made when it is first asked for. It is locked for that: whoever asks keeps the `Arc`, and no
/// packet comes here.
#[derive(Default)]
pub struct TypeMap(Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl TypeMap {
    /// The value of this type, the same for all who ask; `make` makes it for the first, and asks for no other meanwhile.
    pub fn get_or_make<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let held = map.get(&TypeId::of::<T>()).and_then(|value| Arc::clone(value).downcast().ok());
        held.unwrap_or_else(|| {
            let made = Arc::new(make());
            map.insert(TypeId::of::<T>(), Arc::clone(&made) as _);
            made
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::epoch::Published;

    #[test]
    fn one_value_a_type() {
        let map = TypeMap::default();
        let a = map.get_or_make(|| Published::new(1u32));
        let again = map.get_or_make(|| -> Published<u32> { unreachable!("it is made but once") });
        assert!(Arc::ptr_eq(&a, &again));
        let other = map.get_or_make(|| Published::new(2u64));
        let bare = map.get_or_make(|| 3u32);
        // SAFETY: nothing is published anew here.
        #[allow(unsafe_code)]
        let guard = unsafe { graph::Guard::unprotected() };
        assert_eq!((*a.load(&guard), *other.load(&guard), *bare), (1, 2, 3));
    }

    #[test]
    fn the_same_for_all_threads() {
        let map = TypeMap::default();
        let ask = || map.get_or_make(|| Mutex::new(0));
        std::thread::scope(|s| {
            for _ in 0..8 {
                s.spawn(|| *ask().lock().unwrap() += 1);
            }
        });
        assert_eq!(*ask().lock().unwrap(), 8);
    }
}
