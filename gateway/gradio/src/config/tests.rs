use super::*;

#[test]
fn the_dependency_has_an_input_for_every_parameter() {
    let document = config("t", 10);
    let dependency = &document["dependencies"][0];
    let inputs = dependency["inputs"].as_array().unwrap();
    let components = document["components"].as_array().unwrap();
    assert_eq!(inputs.len(), PARAMETERS.len());
    for id in inputs.iter().chain(dependency["outputs"].as_array().unwrap()) {
        let component = components.iter().find(|component| component["id"] == *id).unwrap();
        assert!(component["type"].is_string());
        assert_ne!(component["type"], "state");
    }
}

#[test]
fn what_clients_must_not_be_told_is_absent() {
    let document = config("t", 10);
    assert!(document.get("root").is_none());
    assert_eq!(document["connect_heartbeat"], false);
    assert_eq!(document["run_history"], false);
    assert!(document["app_id"].is_string());
}

#[test]
fn every_parameter_has_a_default() {
    let document = info();
    let endpoint = &document["named_endpoints"]["/chat"];
    for parameter in endpoint["parameters"].as_array().unwrap() {
        assert_eq!(parameter["parameter_has_default"], true);
        assert!(parameter.get("parameter_default").is_some());
        assert!(parameter["python_type"]["type"].is_string());
    }
    assert!(endpoint["returns"].is_array());
}
