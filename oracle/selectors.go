package main

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func answerSelectors(input json.RawMessage) (any, error) {
	var in struct {
		Selector  *metav1.LabelSelector `json:"selector"`
		LabelSets []labels.Set          `json:"labelSets"`
	}
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, err
	}
	selector, err := metav1.LabelSelectorAsSelector(in.Selector)
	if err != nil {
		return map[string]any{"error": err.Error()}, nil
	}
	matches := []bool{}
	for _, set := range in.LabelSets {
		matches = append(matches, selector.Matches(set))
	}
	return map[string]any{"empty": selector.Empty(), "matches": matches, "string": selector.String()}, nil
}
