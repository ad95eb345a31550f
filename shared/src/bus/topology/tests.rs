//! Comparing definitions.
use super::*;

#[test]
fn the_same_configuration_has_no_differences() {
    for config in wanted::streams(&Options::default()) {
        assert_eq!(compare("stream", &config, &config.clone()).unwrap(), []);
    }
}

#[test]
fn a_difference_names_field_and_both_values() {
    let [wanted, ..] = wanted::streams(&Options::default());
    let found = stream::Config { max_messages: 7, republish: None, ..wanted.clone() };
    let differences = compare("stream AGENT_JOBS", &wanted, &found).unwrap();
    assert_eq!(list(&differences), "stream AGENT_JOBS: `max_msgs` is 7, wanted 5000");
}

#[test]
fn what_the_server_adds_by_itself_is_no_difference() {
    let [wanted, ..] = wanted::streams(&Options::default());
    let metadata = [("_nats.ver".to_owned(), "2.15.1".to_owned())].into();
    let compression = Some(stream::Compression::None);
    let found = stream::Config { metadata, compression, ..wanted.clone() };
    assert_eq!(compare("stream", &wanted, &found).unwrap(), []);
}

#[test]
fn replicas_apply_to_every_stream() {
    let options = Options { replicas: 3, ..Options::default() };
    assert!(wanted::streams(&options).iter().all(|config| config.num_replicas == 3));
}
