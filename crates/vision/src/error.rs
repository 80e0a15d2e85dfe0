/// Why an image cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bytes are no image, or a broken one.
    #[error("{0}")]
    Invalid(String),
    /// The image is larger than is allowed.
    #[error("{0}")]
    TooLarge(String),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] onebit_plan::DeviceError),
}

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;
