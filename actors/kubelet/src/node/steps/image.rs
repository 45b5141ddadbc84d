//! Provides a container's image: when to pull, and upstream's texts (`pkg/kubelet/images`).

use oarlock_meta::GoDuration;
use oarlock_runtime::clock;

use super::start::Start;
use crate::configs::image_name;
use crate::cri::{self, Image, Pull};
use crate::pod::StartError;
use crate::template::{ContainerSpec, PullPolicy};

impl Start {
    /// Returns the image of a container, pulling it if necessary.
    pub(super) async fn image(&self, spec: &ContainerSpec) -> Result<Image, StartError> {
        let written = &spec.image;
        let image = &image_name::complete(written).map_err(|why| {
            let text = format!("Failed to apply default image tag \"{written}\": {why}");
            self.send_event(true, "InspectFailed", text.clone());
            self.send_event(true, "Failed", "Error: InvalidImageName".to_owned());
            StartError::Image("InvalidImageName", text)
        })?;
        let config = &self.subject.config;
        let runtime = self.subject.runtime();
        let present = runtime.image_status(image, &spec.name, config).await.map_err(|error| {
            let text = format!("Failed to inspect image \"{written}\": {error}");
            self.send_event(true, "InspectFailed", text.clone());
            self.send_event(true, "Failed", "Error: ImageInspectError".to_owned());
            StartError::Image("ImageInspectError", text)
        })?;
        match (present, spec.pull) {
            (Some(present), PullPolicy::IfNotPresent | PullPolicy::Never) => {
                let text =
                    format!("Container image \"{written}\" already present on machine and can be accessed by the pod");
                self.send_event(false, "Pulled", text);
                return Ok(present);
            }
            (None, PullPolicy::Never) => {
                let text = format!("Container image \"{written}\" is not present with pull policy of Never");
                self.send_event(true, "ErrImageNeverPull", text.clone());
                self.send_event(true, "Failed", "Error: ErrImageNeverPull".to_owned());
                return Err(StartError::Image("ErrImageNeverPull", text));
            }
            _ => {}
        }
        self.send_event(false, "Pulling", format!("Pulling image \"{written}\""));
        let began = clock::now();
        match self.pull(spec, image).await {
            Ok(pulled) => {
                let took = i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX);
                let took = GoDuration::from_nanos(took.saturating_mul(1_000_000));
                let text = format!(
                    "Successfully pulled image \"{written}\" in {took} ({took} including waiting). Image size: {} bytes.",
                    pulled.size
                );
                self.send_event(false, "Pulled", text);
                Ok(pulled)
            }
            Err(error) => {
                self.send_event(true, "Failed", format!("Failed to pull image \"{written}\": {error}"));
                self.send_event(true, "Failed", "Error: ErrImagePull".to_owned());
                Err(StartError::Image("ErrImagePull", error.to_string()))
            }
        }
    }

    async fn pull(&self, spec: &ContainerSpec, image: &str) -> cri::Result<Image> {
        let mut pull = Pull { image, container: &spec.name, pod: &self.subject.config, auth: None };
        let known = match (&self.subject.tools.host_resources, &self.subject.item.value.whole) {
            (Some(host_resources), Some(whole)) => host_resources.credentials(whole, image).await,
            _ => Vec::new(),
        };
        let mut last = None;
        for auth in &known {
            pull.auth = Some(auth);
            match self.subject.runtime().pull_image(pull).await {
                Ok(pulled) => return Ok(pulled),
                Err(error) => last = Some(error),
            }
        }
        match last {
            Some(error) => Err(error),
            None => self.subject.runtime().pull_image(pull).await,
        }
    }
}
