//! Rules of the core group: defaults, validation and warnings.

use crate::type_rules::TypeRules;

pub mod claim;
pub mod cluster_ips;
pub mod config;
pub mod container;
pub mod endpoints;
pub mod env;
pub mod ephemeral;
pub mod event;
pub mod label_keys;
pub mod limit_range;
pub mod load_balancer;
pub mod namespace;
pub mod node;
pub mod persistent_volume;
pub mod pod;
pub mod pod_level;
pub mod pod_spec;
pub mod pod_status;
pub mod pod_template;
pub mod pod_update;
pub mod pod_warnings;
pub mod probe;
pub mod profiles;
pub mod quota;
pub mod replication_controller;
pub mod resources;
pub mod scheduling;
pub mod secret;
pub mod service;
pub mod volume;

/// The rules of the types that make up a pod.
pub const POD_TYPES: &[TypeRules] = &[
    TypeRules::of("core/v1.Pod")
        .default(pod::default)
        .validate(pod_update::validate)
        .create(pod_update::create)
        .validate_update(pod_update::validate_update)
        .status(pod_status::validate_change)
        .warnings(pod_warnings::warnings),
    TypeRules::of("core/v1.PodTemplateSpec").validate(pod_template::validate).warnings(pod_warnings::warnings),
    TypeRules::of("core/v1.PodSpec").default(pod_spec::default).after(pod_spec::validate),
    TypeRules::of("core/v1.Container")
        .required(&["name", "image"])
        .enums(&["imagePullPolicy"])
        .default(container::default)
        .validate(container::validate),
    TypeRules::of("core/v1.EphemeralContainer")
        .required(&["name", "image"])
        .enums(&["imagePullPolicy"])
        .default(container::default_ephemeral)
        .seen_as(ephemeral::seen)
        .validate(ephemeral::validate),
    TypeRules::of("core/v1.ContainerPort").enums(&["protocol"]),
    TypeRules::of("core/v1.EnvVar").validate(env::validate),
    TypeRules::of("core/v1.SecurityContext").enums(&["procMount"]).validate(container::validate_security),
    TypeRules::of("core/v1.PodSecurityContext").enums(&["fsGroupChangePolicy", "supplementalGroupsPolicy"]),
    TypeRules::of("core/v1.SeccompProfile").validate(profiles::validate_seccomp),
    TypeRules::of("core/v1.AppArmorProfile").validate(profiles::validate_app_armor),
    TypeRules::of("core/v1.Probe")
        .non_negative(&[
            "initialDelaySeconds",
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
        ])
        .validate(probe::validate),
    TypeRules::of("core/v1.LifecycleHandler").validate(probe::validate_handler),
    TypeRules::of("core/v1.ExecAction").validate(probe::validate_exec),
    TypeRules::of("core/v1.TCPSocketAction").validate(probe::validate_tcp),
    TypeRules::of("core/v1.HTTPGetAction").required(&["path"]).enums(&["scheme"]).validate(probe::validate_http),
    TypeRules::of("core/v1.ResourceRequirements").default(resources::default),
    TypeRules::of("core/v1.VolumeResourceRequirements").default(resources::default),
    TypeRules::of("core/v1.Toleration").validate(scheduling::validate_toleration),
    TypeRules::of("core/v1.NodeSelector").validate(scheduling::validate_node_selector),
    TypeRules::of("core/v1.PreferredSchedulingTerm").validate(scheduling::validate_preferred),
    TypeRules::of("core/v1.PodAffinityTerm").validate(scheduling::validate_pod_term),
    TypeRules::of("core/v1.WeightedPodAffinityTerm").validate(scheduling::validate_weighted),
    TypeRules::of("core/v1.Volume").default(volume::default).validate(volume::validate),
    TypeRules::of("core/v1.ImageVolumeSource").enums(&["pullPolicy"]).default(volume::default_image),
    TypeRules::of("core/v1.LocalVolumeSource").required(&["path"]).validate(volume::validate_local),
    TypeRules::of("core/v1.HostPathVolumeSource").enums(&["type"]).validate(volume::validate_host_path),
    TypeRules::of("core/v1.SecretVolumeSource").validate(volume::validate_secret),
    TypeRules::of("core/v1.ConfigMapVolumeSource").validate(volume::validate_config_map),
    TypeRules::of("core/v1.KeyToPath").validate(volume::validate_key_to_path),
    TypeRules::of("core/v1.DownwardAPIVolumeSource").validate(volume::validate_downward),
    TypeRules::of("core/v1.ProjectedVolumeSource").validate(volume::validate_projected),
    TypeRules::of("core/v1.EphemeralVolumeSource").validate(volume::validate_ephemeral),
    TypeRules::of("core/v1.NFSVolumeSource").validate(volume::validate_nfs),
    TypeRules::of("core/v1.ISCSIVolumeSource").validate(volume::validate_iscsi),
];

/// The rules of all other types of the core group.
pub const TYPES: &[TypeRules] = &[
    TypeRules::of("core/v1.Service")
        .default(service::default)
        .status(load_balancer::validate_service)
        .warnings(service::warnings),
    TypeRules::of("core/v1.ServiceSpec")
        .enums(&["type", "sessionAffinity", "ipFamilyPolicy"])
        .validate(service::validate)
        .validate_update(service::validate_update),
    TypeRules::of("core/v1.ServicePort").enums(&["protocol"]),
    TypeRules::of("core/v1.Secret")
        .immutable(&["type"])
        .default(secret::default)
        .validate(config::validate_secret)
        .validate_update(config::validate_update),
    TypeRules::of("core/v1.ConfigMap").validate(config::validate_config_map).validate_update(config::validate_update),
    TypeRules::of("core/v1.Namespace")
        .default(namespace::default)
        .validate(namespace::validate)
        .status(namespace::validate_status),
    TypeRules::of("core/v1.EndpointSubset").validate(endpoints::validate_subset),
    TypeRules::of("core/v1.Endpoints").unchanged_passes(&["subsets"]).warnings(endpoints::warnings),
    TypeRules::of("core/v1.EndpointAddress").validate(endpoints::validate_address),
    TypeRules::of("core/v1.EndpointPort").enums(&["protocol"]),
    TypeRules::of("core/v1.Node")
        .validate(node::validate)
        .validate_update(node::validate_update)
        .status(node::validate_status),
    TypeRules::of("core/v1.NodeStatus").default(node::default),
    TypeRules::of("core/v1.NodeSpec").warnings(node::warnings),
    TypeRules::of("core/v1.Event").validate(event::validate),
    TypeRules::of("core/v1.ResourceQuota").status(quota::validate_status),
    TypeRules::of("core/v1.ResourceQuotaSpec").immutable(&["scopes"]).validate(quota::validate),
    TypeRules::of("core/v1.PersistentVolume")
        .default(persistent_volume::default)
        .validate(persistent_volume::validate)
        .validate_update(persistent_volume::validate_update)
        .warnings(persistent_volume::warnings),
    TypeRules::of("core/v1.PersistentVolumeClaim")
        .validate_update(claim::validate_update)
        .status(claim::validate_status)
        .warnings(claim::warnings),
    TypeRules::of("core/v1.PersistentVolumeClaimSpec").enums(&["volumeMode"]).validate(claim::validate),
    TypeRules::of("core/v1.LimitRangeSpec").validate(limit_range::validate),
    TypeRules::of("core/v1.LimitRangeItem").default(limit_range::default),
    TypeRules::of("core/v1.ReplicationController")
        .default(replication_controller::default)
        .status(crate::apps::status::replication_controller),
    TypeRules::of("core/v1.ReplicationControllerSpec")
        .non_negative(&["replicas", "minReadySeconds"])
        .validate(replication_controller::validate)
        .after(replication_controller::after),
];
