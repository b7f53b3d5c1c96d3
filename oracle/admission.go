package main

import (
	"cmp"
	"context"
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	resource_admission "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/pod"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/pod/patch"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/pod/recommendation"
	vpa_types "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	vpa_api_util "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/vpa"
)

type admissionInput struct {
	FeatureGates       map[string]bool                  `json:"featureGates"`
	Vpa                *vpa_types.VerticalPodAutoscaler `json:"vpa"`
	Pod                json.RawMessage                  `json:"pod"`
	LimitRanges        []corev1.LimitRange              `json:"limitRanges"`
	MaxAllowedCPUBoost resource.Quantity                `json:"maxAllowedCPUBoost"`
}

func answerAdmission(input json.RawMessage) (any, error) {
	var in admissionInput
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, err
	}
	if err := setGates(in.FeatureGates); err != nil {
		return nil, err
	}
	patches, refusals, err := admitPod(in)
	if err != nil {
		return nil, err
	}
	if len(refusals) > 0 {
		return map[string]any{"error": refusals.ToAggregate().Error(), "patches": patches}, nil
	}
	sortWalks(patches)
	patched, err := applyPatches(in.Pod, patches)
	if err != nil {
		return nil, err
	}
	containers := []any{}
	for _, container := range patched.Spec.Containers {
		containers = append(containers, map[string]any{"name": container.Name, "resources": container.Resources})
	}
	return map[string]any{"annotations": patched.Annotations, "containers": containers, "patches": patches}, nil
}

// admitPod is the webhook for pods, wired as the original's main function does it.
func admitPod(in admissionInput) ([]resource_admission.PatchRecord, field.ErrorList, error) {
	limitRanges, err := limitRangeCalculator(in.LimitRanges)
	if err != nil {
		return nil, nil, err
	}
	provider := recommendation.NewProvider(limitRanges, vpa_api_util.NewCappingRecommendationProcessor(limitRanges))
	handler := pod.NewResourceHandler(pod.NewDefaultPreProcessor(), matchAlways{in.Vpa}, []patch.Calculator{
		patch.NewResourceUpdatesCalculator(provider, resource.QuantityValue{Quantity: in.MaxAllowedCPUBoost}),
		patch.NewObservedContainersCalculator(),
	})
	patches, _, refusals := handler.GetPatches(context.Background(), &admissionv1.AdmissionRequest{
		Namespace: "default",
		Resource:  metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
		Object:    runtime.RawExtension{Raw: in.Pod},
	})
	return patches, refusals, nil
}

// matchAlways governs every pod by one autoscaler.
type matchAlways struct {
	vpa *vpa_types.VerticalPodAutoscaler
}

func (m matchAlways) GetMatchingVPA(context.Context, *corev1.Pod) *vpa_types.VerticalPodAutoscaler {
	return m.vpa
}

// sortWalks orders what the original writes while walking a map by resource name: the values inside
// one `requests` or `limits`, and the notes about them.
func sortWalks(patches []resource_admission.PatchRecord) {
	for start := 0; start < len(patches); {
		end := start + 1
		for end < len(patches) && sameWalk(patches[start].Path, patches[end].Path) {
			end++
		}
		slices.SortFunc(patches[start:end], func(one, other resource_admission.PatchRecord) int {
			return cmp.Compare(one.Path, other.Path)
		})
		start = end
	}
	for index, record := range patches {
		if record.Path == "/metadata/annotations/"+patch.ResourceUpdatesAnnotation {
			patches[index].Value = sortUpdates(record.Value.(string))
		}
	}
}

var resourceValue = regexp.MustCompile(`^/spec/containers/\d+/resources/(requests|limits)/`)

func sameWalk(one, other string) bool {
	return resourceValue.MatchString(one) && path.Dir(one) == path.Dir(other)
}

var heading = regexp.MustCompile(`(: |; )container \d+: `)

// sortUpdates sorts the notes of each container in the annotation that tells what was updated.
func sortUpdates(text string) string {
	headings := append(heading.FindAllStringIndex(text, -1), []int{len(text), len(text)})
	sorted := text[:headings[0][0]]
	for index, bounds := range headings[:len(headings)-1] {
		notes := text[bounds[1]:headings[index+1][0]]
		sorted += text[bounds[0]:bounds[1]] + strings.Join(sortNotes(strings.Split(notes, ", ")), ", ")
	}
	return sorted
}

func applyPatches(raw []byte, records []resource_admission.PatchRecord) (*corev1.Pod, error) {
	encoded, err := json.Marshal(records)
	if err != nil {
		return nil, err
	}
	operations, err := jsonpatch.DecodePatch(encoded)
	if err != nil {
		return nil, err
	}
	patched, err := operations.Apply(raw)
	if err != nil {
		return nil, err
	}
	var result corev1.Pod
	return &result, json.Unmarshal(patched, &result)
}
