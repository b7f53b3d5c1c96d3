package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	schema_validation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/logic"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/vpa"
)

func answerValidation(input json.RawMessage) (any, error) {
	var in struct {
		FeatureGates map[string]bool       `json:"featureGates"`
		Operation    admissionv1.Operation `json:"operation"`
		Object       json.RawMessage       `json:"object"`
		OldObject    json.RawMessage       `json:"oldObject"`
	}
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, err
	}
	if err := setGates(in.FeatureGates); err != nil {
		return nil, err
	}
	response, err := reviewAutoscaler(in.Operation, in.Object, in.OldObject)
	if err != nil {
		return nil, err
	}
	refusals, err := checkSchema(in.Object)
	if err != nil {
		return nil, err
	}
	expected := map[string]any{
		"allowed":   response.Allowed,
		"crdSchema": map[string]any{"errors": refusals, "valid": len(refusals) == 0},
		"errors":    causes(response),
		"patches":   json.RawMessage("[]"),
		"warnings":  append([]string{}, response.Warnings...),
	}
	if response.Patch != nil {
		expected["patches"] = json.RawMessage(response.Patch)
	}
	if response.Result != nil && len(response.Result.Details.Causes) == 1 {
		expected["message"] = response.Result.Message
	}
	return expected, nil
}

// reviewAutoscaler asks the original's webhook over HTTP.
func reviewAutoscaler(operation admissionv1.Operation, object, oldObject []byte) (*admissionv1.AdmissionResponse, error) {
	var meta metav1.PartialObjectMetadata
	if err := json.Unmarshal(object, &meta); err != nil {
		return nil, err
	}
	review, err := json.Marshal(admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{
		Name:        meta.Name,
		Namespace:   meta.Namespace,
		Operation:   operation,
		Resource:    metav1.GroupVersionResource{Group: "autoscaling.k8s.io", Version: "v1", Resource: "verticalpodautoscalers"},
		RequestKind: &metav1.GroupVersionKind{Group: "autoscaling.k8s.io", Version: "v1", Kind: "VerticalPodAutoscaler"},
		Object:      runtime.RawExtension{Raw: object},
		OldObject:   runtime.RawExtension{Raw: oldObject},
	}})
	if err != nil {
		return nil, err
	}
	request := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(review))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	logic.NewAdmissionServer(nil, vpa.NewDefaultPreProcessor(), nil, nil, nil).Serve(recorder, request)
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil {
		return nil, err
	}
	return answer.Response, nil
}

// causes lists what the webhook refuses; the original finds some of it while walking a map.
func causes(response *admissionv1.AdmissionResponse) []string {
	found := []string{}
	if response.Result != nil {
		for _, cause := range response.Result.Details.Causes {
			found = append(found, cause.Field+": "+cause.Message)
		}
	}
	slices.Sort(found)
	return found
}

// checkSchema is the API server's check of an object against the CRD.
func checkSchema(object []byte) ([]string, error) {
	check, err := crdCheck()
	if err != nil {
		return nil, err
	}
	var content unstructured.Unstructured
	if err := content.UnmarshalJSON(object); err != nil {
		return nil, err
	}
	refusals := schema_validation.ValidateCustomResource(nil, content.Object, check.schema)
	if !slices.ContainsFunc(refusals, stopsRules) {
		broken, _ := check.rules.Validate(
			context.Background(), nil, check.structure, content.Object, nil, celconfig.RuntimeCELCostBudget)
		refusals = append(refusals, broken...)
	}
	found := []string{}
	for _, refusal := range refusals {
		found = append(found, refusal.Error())
	}
	slices.Sort(found)
	return found, nil
}

// stopsRules tells whether the API server skips the rules of the CRD after such an error.
func stopsRules(refusal *field.Error) bool {
	switch refusal.Type {
	case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong,
		field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
		return true
	}
	return false
}

type schemaCheck struct {
	schema    schema_validation.SchemaValidator
	structure *schema.Structural
	rules     *cel.Validator
}

var loadedCheck *schemaCheck

// crdCheck compiles the CRD of the autoscaler once.
func crdCheck() (*schemaCheck, error) {
	if loadedCheck != nil {
		return loadedCheck, nil
	}
	properties, err := crdSchema()
	if err != nil {
		return nil, err
	}
	validator, _, err := schema_validation.NewSchemaValidator(properties)
	if err != nil {
		return nil, err
	}
	structure, err := schema.NewStructural(properties)
	if err != nil {
		return nil, err
	}
	loadedCheck = &schemaCheck{validator, structure, cel.NewValidator(structure, true, celconfig.PerCallLimit)}
	return loadedCheck, nil
}

func crdSchema() (*apiextensions.JSONSchemaProps, error) {
	file, err := os.ReadFile(*crdPath)
	if err != nil {
		return nil, err
	}
	for _, document := range bytes.Split(file, []byte("\n---\n")) {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(document, &crd); err != nil {
			return nil, err
		}
		if crd.Name != "verticalpodautoscalers.autoscaling.k8s.io" {
			continue
		}
		for _, version := range crd.Spec.Versions {
			if version.Name == "v1" {
				var properties apiextensions.JSONSchemaProps
				return &properties, apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
					version.Schema.OpenAPIV3Schema, &properties, nil)
			}
		}
	}
	return nil, errors.New("no CRD of the autoscaler in the file given by -crd")
}
