// Fills in what Prometheus itself makes of relabel rules: each line of JSON on stdin has labels and rules, the same
// line with the answer ("error", "dropped" or the labels after) goes to stdout.
//
//	cd tests/vectors/relabel/answers && go run . <../prometheus.jsonl >answered && mv answered ../prometheus.jsonl
package main

import (
	"bufio"
	"encoding/json"
	"log"
	"os"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"go.yaml.in/yaml/v2"
)

type row struct {
	Before map[string]string `json:"before"`
	Rules  json.RawMessage   `json:"rules"`
	After  any               `json:"after"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for lines.Scan() {
		var r row
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			log.Fatal(err)
		}
		r.After = answer(r)
		if err := out.Encode(r); err != nil {
			log.Fatal(err)
		}
	}
}

func answer(r row) any {
	var rules []*relabel.Config
	if err := yaml.UnmarshalStrict(r.Rules, &rules); err != nil {
		return "error"
	}
	for _, rule := range rules {
		if err := rule.Validate(model.UTF8Validation); err != nil {
			return "error"
		}
	}
	builder := labels.NewBuilder(labels.FromMap(r.Before))
	if !relabel.ProcessBuilder(builder, rules...) {
		return "dropped"
	}
	return builder.Labels().Map()
}
