package main

import (
	"bytes"
	"encoding/json"
)

// dashboard contains the fields of Grafana's dashboard JSON model that are used here. The field names are
// Grafana's.
type dashboard struct {
	UID           string     `json:"uid"`
	Title         string     `json:"title"`
	Description   string     `json:"description"`
	Tags          []string   `json:"tags"`
	Editable      bool       `json:"editable"`
	SchemaVersion int        `json:"schemaVersion"`
	Timezone      string     `json:"timezone"`
	Refresh       string     `json:"refresh"`
	Time          timeRange  `json:"time"`
	Links         []link     `json:"links"`
	Templating    templating `json:"templating"`
	Panels        []panel    `json:"panels"`
}

type timeRange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// link links to the other dashboards.
type link struct {
	Type        string   `json:"type"`
	Title       string   `json:"title"`
	Tags        []string `json:"tags"`
	AsDropdown  bool     `json:"asDropdown"`
	KeepTime    bool     `json:"keepTime"`
	IncludeVars bool     `json:"includeVars"`
}

type templating struct {
	List []variable `json:"list"`
}

// variable is a selection at the top of a dashboard.
type variable struct {
	Name       string  `json:"name"`
	Label      string  `json:"label"`
	Type       string  `json:"type"`
	Query      string  `json:"query"`
	Datasource *source `json:"datasource,omitempty"`
	// Refresh is 1 to read the options when the dashboard is opened, or 2 to read them again when the time
	// range changes.
	Refresh int `json:"refresh"`
	Sort    int `json:"sort"`
}

// source is a data source.
type source struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// chosen is the data source that the reader selected.
var chosen = &source{"prometheus", "${datasource}"}

type panel struct {
	ID          int         `json:"id"`
	Type        string      `json:"type"`
	Title       string      `json:"title"`
	Description string      `json:"description,omitempty"`
	Datasource  *source     `json:"datasource,omitempty"`
	GridPos     grid        `json:"gridPos"`
	Targets     []target    `json:"targets,omitempty"`
	FieldConfig fieldConfig `json:"fieldConfig"`
	Options     any         `json:"options,omitempty"`
	// Transformations are the transformations of a table.
	Transformations []any `json:"transformations,omitempty"`
}

// grid is the position of a panel, on a dashboard of 24 columns.
type grid struct {
	X int `json:"x"`
	Y int `json:"y"`
	W int `json:"w"`
	H int `json:"h"`
}

type target struct {
	RefID        string  `json:"refId"`
	Expr         string  `json:"expr"`
	LegendFormat string  `json:"legendFormat,omitempty"`
	Format       string  `json:"format,omitempty"`
	Instant      bool    `json:"instant,omitempty"`
	Range        bool    `json:"range,omitempty"`
	Datasource   *source `json:"datasource"`
}

type fieldConfig struct {
	Defaults  fieldDefaults `json:"defaults"`
	Overrides []any         `json:"overrides"`
}

type fieldDefaults struct {
	Unit   string `json:"unit,omitempty"`
	Min    *int   `json:"min,omitempty"`
	Custom any    `json:"custom,omitempty"`
}

// query is an expression with the legend of its series.
type query struct{ legend, expr string }

// newDashboard returns a dashboard with panels, which are placed from left to right.
func newDashboard(name, title, description string, variables []variable, panels ...panel) dashboard {
	d := dashboard{
		UID: "heighliner-" + name, Title: "Heighliner / " + title, Description: description, Tags: []string{"heighliner"},
		SchemaVersion: 39, Timezone: "browser", Refresh: "30s", Time: timeRange{"now-6h", "now"},
		Links: []link{{Type: "dashboards", Title: "Heighliner", Tags: []string{"heighliner"}, AsDropdown: true, KeepTime: true, IncludeVars: true}},
	}
	d.Templating.List = append([]variable{{Name: "datasource", Label: "Data source", Type: "datasource", Query: "prometheus", Refresh: 1}}, variables...)
	x, y, height := 0, 0, 0
	for i, p := range panels {
		if x+p.GridPos.W > 24 || p.Type == "row" {
			x, y, height = 0, y+height, 0
		}
		p.ID, p.GridPos.X, p.GridPos.Y = i+1, x, y
		x, height = x+p.GridPos.W, max(height, p.GridPos.H)
		d.Panels = append(d.Panels, p)
	}
	return d
}

// choice returns a variable with the values of a label.
func choice(name, label, metric string) variable {
	return variable{Name: name, Label: label, Type: "query", Query: "label_values(" + metric + ", " + name + ")", Datasource: chosen, Refresh: 2, Sort: 1}
}

// row returns the heading of a section of a dashboard.
func row(title string) panel {
	return panel{Type: "row", Title: title, GridPos: grid{W: 24, H: 1}, FieldConfig: fieldConfig{Overrides: []any{}}}
}

// stat shows the current value of a query.
func stat(title, unit, expr string) panel {
	p := drawn("stat", title, unit, 4, 4, query{"", expr})
	p.Targets[0].Instant, p.Targets[0].Range = true, false
	p.Options = map[string]any{"reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}}, "colorMode": "none", "graphMode": "none"}
	return p
}

// series draws queries over time.
func series(title, unit string, queries ...query) panel {
	p := drawn("timeseries", title, unit, 12, 8, queries...)
	p.FieldConfig.Defaults.Min = new(0)
	p.FieldConfig.Defaults.Custom = map[string]any{"fillOpacity": 10, "lineWidth": 1, "showPoints": "never"}
	p.Options = map[string]any{"legend": map[string]any{"displayMode": "list", "placement": "bottom"}, "tooltip": map[string]any{"mode": "multi", "sort": "desc"}}
	return p
}

// table shows the labels of the current series of a query.
func table(title, unit, expr string) panel {
	p := drawn("table", title, unit, 24, 8, query{"", expr})
	p.Targets[0].Instant, p.Targets[0].Range, p.Targets[0].Format = true, false, "table"
	p.Transformations = []any{map[string]any{"id": "organize", "options": map[string]any{"excludeByName": map[string]bool{"Time": true}}}}
	return p
}

func drawn(kind, title, unit string, width, height int, queries ...query) panel {
	p := panel{Type: kind, Title: title, Datasource: chosen, GridPos: grid{W: width, H: height}, FieldConfig: fieldConfig{Defaults: fieldDefaults{Unit: unit}, Overrides: []any{}}}
	for i, q := range queries {
		p.Targets = append(p.Targets, target{RefID: string(rune('A' + i)), Expr: q.expr, LegendFormat: q.legend, Range: true, Datasource: chosen})
	}
	return p
}

// about returns a copy of the panel with a description.
func (p panel) about(text string) panel {
	p.Description = text
	return p
}

// wide returns a copy of the panel with the given width, in columns of Grafana's grid, which has 24 columns.
func (p panel) wide(columns int) panel {
	p.GridPos.W = columns
	return p
}

// model returns a dashboard in Grafana's JSON.
func (d dashboard) model() []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(d); err != nil {
		panic(err) // This cannot happen, because the types are plain.
	}
	return out.Bytes()
}
