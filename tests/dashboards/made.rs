//! From the source of a dashboard to what Grafana loads: classic JSON of schema 39, for Grafana 10.2 and later.

use serde_json::{Map, Value, json};

use super::source::{Board, Column, Panel, Query, Step, spelled_out};
use super::words::mappings;

/// Every panel asks the data source that is chosen above.
fn datasource() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

/// The dashboard.
pub(crate) fn dashboard(board: &Board) -> Value {
    let mut panels = Vec::new();
    let (mut id, mut top) = (0, 0);
    for row in &board.rows {
        id += 1;
        panels.push(json!({
            "id": id, "type": "row", "title": row.title, "collapsed": false, "panels": [],
            "gridPos": {"x": 0, "y": top, "w": 24, "h": 1},
        }));
        top += 1;
        let (mut x, mut height) = (0, 0);
        for panel in &row.panels {
            let [w, h] = panel.size;
            if x + w > 24 {
                top += height;
                (x, height) = (0, 0);
            }
            id += 1;
            panels.push(self::panel(
                panel,
                id,
                &json!({"x": x, "y": top, "w": w, "h": h}),
            ));
            x += w;
            height = height.max(h);
        }
        top += height;
    }
    json!({
        "uid": board.uid,
        "title": board.title,
        "description": board.about,
        "tags": ["training-exporter"],
        "schemaVersion": 39,
        "version": 1,
        "editable": false,
        "graphTooltip": 1,
        "timezone": "browser",
        "refresh": "30s",
        "time": {"from": board.from, "to": "now"},
        "links": [{
            "type": "dashboards", "title": "Training", "tags": ["training-exporter"], "icon": "external link",
            "asDropdown": false, "includeVars": true, "keepTime": true, "targetBlank": false,
        }],
        "annotations": {"list": annotations(board)},
        "templating": {"list": variables(board)},
        "panels": panels,
    })
}

fn annotations(board: &Board) -> Vec<Value> {
    let alerts = |expr: &String| {
        json!({
            "name": "Alerts", "datasource": datasource(), "enable": true, "iconColor": "red", "expr": expr,
            "step": "15s", "titleFormat": "{{alertname}}", "textFormat": "{{severity}}", "tagKeys": "severity",
        })
    };
    board.alerts.iter().map(alerts).collect()
}

fn variables(board: &Board) -> Vec<Value> {
    let mut list = vec![json!({
        "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus",
        "refresh": 1, "regex": "", "hide": 0, "multi": false, "includeAll": false, "options": [], "current": {},
    })];
    for name in &board.variables {
        let (label, of) = match name.as_str() {
            "job" => ("Job", "training_exporter_build_info"),
            "instance" => ("Instance", r#"training_exporter_build_info{job=~"$job"}"#),
            "run" => ("Run", "training_run_info{@node}"),
            "gpu" => ("GPU", "training_gpu_info{@node}"),
            _ => panic!("no variable is called `{name}`"),
        };
        let query = format!("label_values({}, {name})", spelled_out(of));
        let mut variable = json!({
            "name": name, "label": label, "type": "query", "datasource": datasource(),
            "query": query, "definition": query, "refresh": 2, "regex": "", "sort": 7, "hide": 0, "options": [],
        });
        let choice = if name == "run" {
            json!({"multi": false, "includeAll": false, "current": {}})
        } else {
            let all = json!({"selected": true, "text": ["All"], "value": ["$__all"]});
            json!({"multi": true, "includeAll": true, "allValue": ".+", "current": all})
        };
        extend(&mut variable, choice);
        list.push(variable);
    }
    list
}

fn panel(panel: &Panel, id: u64, place: &Value) -> Value {
    let mut made = json!({
        "id": id, "type": panel.kind, "title": panel.title, "description": panel.about, "gridPos": place,
    });
    if panel.kind == "text" {
        extend(
            &mut made,
            json!({"options": {"mode": "markdown", "content": panel.text}}),
        );
        return made;
    }
    let targets: Vec<Value> = panel
        .queries
        .iter()
        .zip('A'..)
        .map(|(q, id)| target(panel, q, id))
        .collect();
    extend(
        &mut made,
        json!({
            "datasource": datasource(),
            "targets": targets,
            "fieldConfig": {"defaults": defaults(panel), "overrides": overrides(panel)},
            "options": options(panel),
        }),
    );
    if panel.kind == "table" {
        extend(
            &mut made,
            json!({"transformations": transformations(panel)}),
        );
    }
    made
}

fn target(panel: &Panel, query: &Query, id: char) -> Value {
    let over_time = ["timeseries", "state-timeline"].contains(&panel.kind.as_str());
    let table = panel.kind == "table";
    json!({
        "refId": id.to_string(),
        "datasource": datasource(),
        "expr": spelled_out(&query.expr),
        "legendFormat": if query.legend.is_empty() { "__auto" } else { &query.legend },
        "instant": !over_time,
        "range": over_time,
        "format": if table { "table" } else { "time_series" },
    })
}

fn thresholds(steps: &[Step]) -> Value {
    let step = |step: &Step| match step {
        Step::Base([colour]) => json!({"value": null, "color": colour}),
        Step::From(value, colour) => json!({"value": value, "color": colour}),
    };
    let steps: Vec<Value> = if steps.is_empty() {
        vec![step(&Step::Base(["text".to_owned()]))]
    } else {
        steps.iter().map(step).collect()
    };
    json!({"mode": "absolute", "steps": steps})
}

fn defaults(panel: &Panel) -> Value {
    let lines = panel.kind == "timeseries";
    let colour = match panel.kind.as_str() {
        "timeseries" | "bargauge" => json!({"mode": "palette-classic"}),
        "state-timeline" => json!({"mode": "fixed", "fixedColor": "text"}),
        _ => json!({"mode": "thresholds"}),
    };
    let custom = match panel.kind.as_str() {
        "timeseries" => json!({
            "drawStyle": if panel.bars { "bars" } else { "line" },
            "lineWidth": 1,
            "fillOpacity": if panel.bars || panel.stack.is_some() { 60 } else { 8 },
            "showPoints": "never",
            "spanNulls": false,
            "stacking": {"mode": panel.stack.as_deref().unwrap_or("none"), "group": "A"},
        }),
        "state-timeline" => json!({"fillOpacity": 85, "lineWidth": 0, "spanNulls": false}),
        "table" => json!({"align": "auto", "cellOptions": {"type": "auto"}, "filterable": true}),
        _ => json!({}),
    };
    let mut defaults = json!({
        "unit": panel.unit.as_deref().unwrap_or("none"),
        "color": colour,
        "mappings": mappings(&panel.words),
        "thresholds": thresholds(&panel.steps),
        "custom": custom,
    });
    if lines || panel.kind == "bargauge" {
        extend(&mut defaults, json!({"min": 0}));
    }
    if let Some(max) = panel.max {
        extend(&mut defaults, json!({"max": max}));
    }
    defaults
}

fn options(panel: &Panel) -> Value {
    let reduce = json!({"values": false, "calcs": ["lastNotNull"], "fields": ""});
    match panel.kind.as_str() {
        "stat" => {
            let one = panel.queries.len() == 1 && !panel.queries[0].legend.contains("{{");
            json!({
                "reduceOptions": reduce,
                "orientation": "auto",
                "textMode": if one { "value" } else { "value_and_name" },
                "colorMode": if panel.steps.is_empty() || panel.steps.len() > 1 { "background" } else { "value" },
                "graphMode": "none",
                "justifyMode": "center",
            })
        }
        "bargauge" => json!({
            "reduceOptions": reduce, "orientation": "horizontal", "displayMode": "basic", "showUnfilled": true,
        }),
        "state-timeline" => json!({
            "mergeValues": true, "showValue": "auto", "alignValue": "left", "rowHeight": 0.85,
            "legend": {"showLegend": false, "displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "single", "sort": "none"},
        }),
        "timeseries" => json!({
            "legend": {"showLegend": true, "displayMode": "list", "placement": "bottom", "calcs": []},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }),
        "table" => {
            let sort: Vec<Value> = panel
                .sort
                .iter()
                .map(|name| json!({"displayName": name, "desc": false}))
                .collect();
            json!({"showHeader": true, "cellHeight": "sm", "sortBy": sort})
        }
        kind => panic!("no panel is of the type `{kind}`"),
    }
}

/// The name that Grafana gives to what a column shows.
fn field(panel: &Panel, column: &Column) -> String {
    let value = column.of.len() == 1 && column.of.starts_with(|c: char| c.is_ascii_uppercase());
    match (value, panel.queries.len()) {
        (false, _) => column.of.clone(),
        (true, 1) => "Value".to_owned(),
        (true, _) => format!("Value #{}", column.of),
    }
}

/// All queries side by side, one line for each set of labels; what is no column is hidden.
fn transformations(panel: &Panel) -> Value {
    let shown: Vec<String> = panel
        .columns
        .iter()
        .map(|column| field(panel, column))
        .collect();
    let mut hidden = Map::from_iter([("Time".to_owned(), json!(true))]);
    for (_, id) in panel.queries.iter().zip('A'..) {
        let name = if panel.queries.len() == 1 {
            "Value".to_owned()
        } else {
            format!("Value #{id}")
        };
        if !shown.contains(&name) {
            hidden.insert(name, json!(true));
        }
    }
    let order: Map<String, Value> = shown
        .iter()
        .zip(0..)
        .map(|(name, n)| (name.clone(), json!(n)))
        .collect();
    let names: Map<String, Value> = shown
        .iter()
        .zip(&panel.columns)
        .map(|(name, column)| (name.clone(), json!(column.name)))
        .collect();
    json!([
        {"id": "merge", "options": {}},
        {"id": "organize", "options": {"excludeByName": hidden, "indexByName": order, "renameByName": names}},
    ])
}

fn overrides(panel: &Panel) -> Vec<Value> {
    let property = |id: &str, value: Value| json!({"id": id, "value": value});
    let mut all = Vec::new();
    let mut of_query = |id: char, properties: Value| {
        all.push(json!({"matcher": {"id": "byFrameRefID", "options": id.to_string()}, "properties": properties}));
    };
    for (query, id) in panel.queries.iter().zip('A'..) {
        if let Some(line) = &query.line {
            let (colour, dash) = if line == "ceiling" {
                ("red", [8, 6])
            } else {
                ("text", [2, 4])
            };
            of_query(
                id,
                json!([
                    property("color", json!({"mode": "fixed", "fixedColor": colour})),
                    property("custom.lineStyle", json!({"fill": "dash", "dash": dash})),
                    property("custom.fillOpacity", json!(0)),
                ]),
            );
        }
        if !query.words.is_empty() {
            of_query(id, json!([property("mappings", mappings(&query.words))]));
        }
    }
    for column in &panel.columns {
        let mut properties = Vec::new();
        if let Some(unit) = &column.unit {
            properties.push(property("unit", json!(unit)));
        }
        if !column.words.is_empty() {
            properties.push(property("mappings", mappings(&column.words)));
        }
        if !column.steps.is_empty() {
            properties.push(property("thresholds", thresholds(&column.steps)));
        }
        match column.show.as_deref() {
            Some("gauge") => {
                properties.push(property(
                    "custom.cellOptions",
                    json!({"type": "gauge", "mode": "basic"}),
                ));
                properties.push(property("min", json!(0)));
                properties.push(property("max", json!(1)));
                properties.push(property(
                    "color",
                    json!({"mode": "fixed", "fixedColor": "blue"}),
                ));
            }
            Some("background") => properties.push(property(
                "custom.cellOptions",
                json!({"type": "color-background", "mode": "basic"}),
            )),
            Some("text") => properties.push(property(
                "custom.cellOptions",
                json!({"type": "color-text"}),
            )),
            Some(show) => panic!("no cell is shown as `{show}`"),
            None => {}
        }
        if let Some(width) = column.width {
            properties.push(property("custom.width", json!(width)));
        }
        if let Some(to) = &column.link {
            let variable = if to == "gpu" { "instance" } else { to };
            let url = format!(
                "/d/training-{to}/training-{to}?${{datasource:queryparam}}&var-{variable}=${{__value.raw:percentencode}}&${{__url_time_range}}"
            );
            let title = if to == "gpu" {
                "GPUs of this node"
            } else {
                "This run"
            };
            properties.push(property("links", json!([{"title": title, "url": url}])));
        }
        if !properties.is_empty() {
            all.push(json!({"matcher": {"id": "byName", "options": column.name}, "properties": properties}));
        }
    }
    all
}

fn extend(object: &mut Value, more: Value) {
    if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
        object.extend(more);
    }
}
