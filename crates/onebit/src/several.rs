//! Devices that are tried one after the other.

use onebit_plan::{Device, DeviceError, Executable, Limits, Memory, Model, Progress};

/// Loads a model onto the first of these devices that can run it, and tells of those that cannot.
pub(crate) struct Several(pub(crate) Vec<Box<dyn Device>>);

impl Several {
    fn first(&self) -> Option<&dyn Device> {
        self.0.first().map(AsRef::as_ref)
    }
}

impl Device for Several {
    fn name(&self) -> &str {
        self.first().map_or("none", Device::name)
    }

    fn memory(&self, model: &Model, limits: &Limits) -> Memory {
        self.first().map(|device| device.memory(model, limits)).unwrap_or_default()
    }

    fn load(&self, model: Model, limits: &Limits, progress: &mut dyn FnMut(Progress)) -> Result<Box<dyn Executable>, DeviceError> {
        let mut refused = DeviceError::Unsupported("no device was asked for".into());
        for (i, device) in self.0.iter().enumerate() {
            // Weights are still in their file: a copy is of their names.
            refused = match device.load(model.clone(), limits, progress) {
                Err(error @ (DeviceError::Refused { .. } | DeviceError::Unsupported(_) | DeviceError::Memory { .. })) => error,
                other => return other,
            };
            if let Some(next) = self.0.get(i + 1) {
                tracing::warn!("{refused}; trying `{}` instead", next.name());
            }
        }
        Err(refused)
    }
}
