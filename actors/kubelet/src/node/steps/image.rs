//! Provides a container's image: when to pull, and upstream's texts (`pkg/kubelet/images`).

use oarlock_meta::GoDuration;
use oarlock_runtime::clock;

use super::start::Start;
use crate::configs::image_name;
use crate::cri::{self, Image, Pull};
use crate::pod::StartError;
use crate::template::{ContainerSpec, PullPolicy};
use crate::trace::{self, Attribute};

/// Returns the attributes of a pull's span.
fn attributes(spec: &ContainerSpec) -> Vec<Attribute> {
    vec![("k8s.container.name", spec.name.to_string()), ("container.image.name", trace::image_name(&spec.image))]
}

impl Start {
    /// Returns the image of a container, pulling it if necessary.
    pub(super) async fn image(&self, spec: &ContainerSpec) -> Result<Image, StartError> {
        let written = &spec.image;
        let traced = self.subject.life.as_ref().map(|life| (life, clock::now()));
        let refused = |reason, text: String| {
            if let Some((life, began)) = traced {
                // The name may hold credentials, which the texts of Events and statuses show as upstream's do.
                let clean = text.replace(written.as_str(), &trace::image_name(written));
                life.record("pull", attributes(spec), began, Some(&format!("{reason}: {clean}")));
            }
            StartError::Image(reason, text)
        };
        let image = &image_name::complete(written).map_err(|why| {
            let text = format!("Failed to apply default image tag \"{written}\": {why}");
            self.send_event(true, "InspectFailed", text.clone());
            self.send_event(true, "Failed", "Error: InvalidImageName".to_owned());
            refused("InvalidImageName", text)
        })?;
        let config = &self.subject.config;
        let runtime = self.subject.runtime();
        let present = runtime.image_status(image, &spec.name, config).await.map_err(|error| {
            let text = format!("Failed to inspect image \"{written}\": {error}");
            self.send_event(true, "InspectFailed", text.clone());
            self.send_event(true, "Failed", "Error: ImageInspectError".to_owned());
            refused("ImageInspectError", text)
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
                return Err(refused("ErrImageNeverPull", text));
            }
            _ => {}
        }
        self.send_event(false, "Pulling", format!("Pulling image \"{written}\""));
        let pulling = clock::now();
        let pull = async {
            self.pull(spec, image).await.map_err(|error| StartError::Image("ErrImagePull", error.to_string()))
        };
        match trace::step(self.subject.life.as_ref(), "pull", || attributes(spec), pull).await {
            Ok(pulled) => {
                let took = i64::try_from(pulling.elapsed().as_millis()).unwrap_or(i64::MAX);
                let took = GoDuration::from_nanos(took.saturating_mul(1_000_000));
                let text = format!(
                    "Successfully pulled image \"{written}\" in {took} ({took} including waiting). Image size: {} bytes.",
                    pulled.size
                );
                self.send_event(false, "Pulled", text);
                Ok(pulled)
            }
            Err(error) => {
                self.send_event(true, "Failed", format!("Failed to pull image \"{written}\": {}", error.message()));
                self.send_event(true, "Failed", "Error: ErrImagePull".to_owned());
                Err(error)
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
