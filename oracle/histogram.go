package main

import (
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	vpa_types "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/model"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/util"
)

var percentiles = []float64{0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1}

type operation struct {
	Op         string                        `json:"op"`
	Value      float64                       `json:"value"`
	Weight     float64                       `json:"weight"`
	Time       time.Time                     `json:"time"`
	Other      []operation                   `json:"other"`
	Checkpoint vpa_types.HistogramCheckpoint `json:"checkpoint"`
}

func answerHistogram(input json.RawMessage) (any, error) {
	var in struct {
		Resource string      `json:"resource"`
		Ops      []operation `json:"ops"`
	}
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, err
	}
	histogram, refusals, err := runOperations(in.Resource, in.Ops)
	if err != nil {
		return nil, err
	}
	checkpoint, err := histogram.SaveToChekpoint()
	if err != nil {
		return nil, err
	}
	values := [][2]float64{}
	for _, percentile := range percentiles {
		values = append(values, [2]float64{percentile, histogram.Percentile(percentile)})
	}
	expected := map[string]any{
		"checkpoint":  showCheckpoint(*checkpoint),
		"isEmpty":     histogram.IsEmpty(),
		"percentiles": values,
	}
	if len(refusals) > 0 {
		expected["errors"] = refusals
	}
	return expected, nil
}

func runOperations(resource string, operations []operation) (util.Histogram, []map[string]any, error) {
	histogram := newHistogram(resource)
	var refusals []map[string]any
	for index, op := range operations {
		switch op.Op {
		case "add":
			histogram.AddSample(op.Value, op.Weight, op.Time)
		case "subtract":
			histogram.SubtractSample(op.Value, op.Weight, op.Time)
		case "merge":
			other, _, err := runOperations(resource, op.Other)
			if err != nil {
				return nil, nil, err
			}
			histogram.Merge(other)
		case "roundTrip":
			checkpoint, err := histogram.SaveToChekpoint()
			if err != nil {
				return nil, nil, err
			}
			histogram = newHistogram(resource)
			if err := histogram.LoadFromCheckpoint(checkpoint); err != nil {
				return nil, nil, err
			}
		case "load":
			if err := histogram.LoadFromCheckpoint(&op.Checkpoint); err != nil {
				refusals = append(refusals, map[string]any{"op": index, "error": err.Error()})
			}
		default:
			return nil, nil, fmt.Errorf("unknown operation %q", op.Op)
		}
	}
	return histogram, refusals, nil
}

func newHistogram(resource string) util.Histogram {
	config := model.GetAggregationsConfig()
	if resource == "cpu" {
		return util.NewDecayingHistogram(config.CPUHistogramOptions, config.CPUHistogramDecayHalfLife)
	}
	return util.NewDecayingHistogram(config.MemoryHistogramOptions, config.MemoryHistogramDecayHalfLife)
}

func showCheckpoint(checkpoint vpa_types.HistogramCheckpoint) map[string]any {
	return map[string]any{
		"bucketWeights":      checkpoint.BucketWeights,
		"referenceTimestamp": showTime(checkpoint.ReferenceTimestamp.Time),
		"totalWeight":        checkpoint.TotalWeight,
	}
}

// showTime is null for a time that was never set.
func showTime(moment time.Time) any {
	if moment.IsZero() {
		return nil
	}
	return metav1.NewTime(moment)
}
