//! Target `yaml`: any bytes as a document.

/// Loads it, and shows the errors if there are any.
pub fn run(data: &[u8]) {
    if let Err(errors) = control::yaml::check_bytes("fuzz.yaml", data.to_vec()) {
        assert!(!errors.errors.is_empty());
        assert!(!errors.to_string().is_empty());
        assert!(errors.to_json().starts_with('['));
    }
}
