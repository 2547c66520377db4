// A call of a known plan, from torch's tensors to cuLaunchKernel, without Python (launcher.py).
//
// Python makes each plan once and keeps it here under the shapes of its call. A later call of these shapes allocates,
// encodes its tensor maps and launches here. A call that this file does not know returns None, and Python takes it.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>

#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/python_variable.h>

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// ---- the driver ----

namespace {
constexpr int NO_CONTEXT = 201;  // CUDA_ERROR_INVALID_CONTEXT: this thread has not used the GPU yet
constexpr size_t ALIGNED = 16;   // bytes: addresses of vectors and of tensor maps
constexpr int MAP_BYTES = 128;

// The driver's structures, as cuda.h has them
struct alignas(64) EncodedMap {
  unsigned char bytes[MAP_BYTES];
};
struct LaunchConfig {  // CUlaunchConfig
  unsigned grid[3], block[3], shared_bytes;
  void* stream;
  void* attributes;
  unsigned attribute_count;
};

struct Driver {
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
  int (*launch_with)(const LaunchConfig*, void*, void**, void**);
  int (*encode)(void*, int, unsigned, void*, const uint64_t*, const uint64_t*, const unsigned*, const unsigned*, int,
                int, int, int);
  int (*capturing)(void*, int*, unsigned long long*);
  int (*fill)(void*, unsigned char, size_t, void*);
  int (*device_of)(int*, int);
  int (*retain)(void**, int);
  int (*set_current)(void*);
} driver;

// c10::cuda::getCurrentCUDAStream and CUDAStream::stream, by their symbols: CUDA's headers are not needed
struct CudaStream {
  c10::Stream stream;
};
CudaStream (*current_stream)(c10::DeviceIndex) = nullptr;
void* (*raw_stream)(const CudaStream*) = nullptr;

PyObject* failed = nullptr;            // Python: raises the error of a driver's status
PyObject* python_backward = nullptr;   // Python: the backward of shapes without a plan
bool paused = false;                   // while somebody watches the calls

template <class F> bool find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  return function != nullptr;
}

void* stream_of(c10::Device device) {
  if (!device.is_cuda() || !current_stream) return nullptr;
  const CudaStream current = current_stream(device.index());
  return raw_stream(&current);
}

// ---- plans ----

enum Source { GIVEN, CONSTANT, EMPTY, ZERO, KEPT };
struct Slot {
  Source source;
  int number;  // of the call's tensor
  std::vector<int64_t> sizes, strides;
  std::vector<int64_t> order;  // of a given tensor's axes in memory, if each call copies it
  at::ScalarType type;
  Tensor constant;
};
struct Map {
  int slot, type, rank, swizzle;
  uint64_t sizes[5], strides[5];
  unsigned box[5], steps[5] = {1, 1, 1, 1, 1};
  void* address = nullptr;
  EncodedMap encoded;
};
struct Argument {
  char kind;   // t: the address of a tensor, m: a tensor map, v: a value
  int number;  // of the slot or map, or the value's place in `values`
};
struct Step {
  void* function;
  unsigned grid[3], block[3], shared_bytes;
  std::vector<Argument> arguments;
  bool has_config;
  LaunchConfig config;
};
struct Kept {
  unsigned long long capture;
  Tensor zeros;
};

struct Plan {
  std::mutex lock;
  c10::Device device = c10::kCPU;
  std::vector<Slot> slots;
  std::vector<Map> maps;
  std::vector<Step> steps;
  std::string values;
  std::vector<int> outputs;
  std::map<std::pair<void*, int>, Tensor> zeros;   // (stream, slot) -> zeros that the kernel leaves as zeros
  std::map<std::pair<void*, int>, Kept> captured;  // the same for the graph that the stream records
  std::map<int, Tensor> next;                      // slot -> zeros for the next graph
  variable_list of_graphs;                         // zeros of all graphs, as nobody says when a graph ends
  std::vector<void*> addresses, parameters;
};

struct Failure {
  int status;
};

// Zeros that the kernel leaves as zeros. An empty tensor if Python has to make them: they must outlive every graph.
// A graph has its own from outside its memory pool, since torch refuses a pool with tensors that outlive the capture.
// A graph without a call since the last graph gets zeros of its pool for each launch.
Tensor kept_zeros(Plan& plan, int number, void* stream, int capturing, unsigned long long capture) {
  const std::pair<void*, int> key{stream, number};
  const auto next = plan.next.find(number);
  if (!capturing) {
    const auto found = plan.zeros.find(key);
    return found == plan.zeros.end() || next == plan.next.end() ? Tensor() : found->second;
  }
  Kept& kept = plan.captured[key];  // the stream orders all launches of one graph
  if (kept.capture != capture || !kept.zeros.defined()) {
    if (next == plan.next.end()) {
      const Slot& slot = plan.slots[number];
      return at::zeros(slot.sizes, at::TensorOptions().dtype(slot.type).device(plan.device));
    }
    kept = {capture, next->second};
    plan.of_graphs.push_back(next->second);
    plan.next.erase(next);
  }
  return kept.zeros;
}

int launch(const Step& step, void** parameters, void* stream) {
  if (step.has_config) {
    LaunchConfig config = step.config;
    config.stream = stream;
    return driver.launch_with(&config, step.function, parameters, nullptr);
  }
  return driver.launch(step.function, step.grid[0], step.grid[1], step.grid[2], step.block[0], step.block[1],
                       step.block[2], step.shared_bytes, stream, parameters, nullptr);
}

// Launches a plan. False if Python has to take the call: an address that is no multiple of 16, or missing zeros.
// `own`: outputs of the caller, in the order of the plan's outputs, or none. `clear`: whether new outputs are zeros.
bool run(Plan& plan, const Tensor* given, size_t count, variable_list& outputs, const variable_list* own = nullptr,
         bool clear = false) {
  const c10::OptionalDeviceGuard guard(plan.device.is_cuda() ? c10::optional<c10::Device>(plan.device) : c10::nullopt);
  void* const stream = stream_of(plan.device);
  int capturing = 0;
  unsigned long long capture = 0;
  if (driver.capturing(stream, &capturing, &capture)) capturing = 0;
  const std::lock_guard<std::mutex> hold(plan.lock);
  std::vector<Tensor> held;  // until the launches are in the stream
  held.reserve(plan.slots.size());
  std::vector<const Tensor*> placed(plan.slots.size());
  for (size_t n = 0; n < plan.slots.size(); ++n) {
    const Slot& slot = plan.slots[n];
    if (slot.source == GIVEN) {
      if (size_t(slot.number) >= count) return false;
      placed[n] = &given[slot.number];
      if (!slot.order.empty()) {
        held.push_back(placed[n]->permute(slot.order).contiguous());
        placed[n] = &held.back();
      }
    } else if (slot.source == CONSTANT) {
      placed[n] = &slot.constant;
    } else {
      Tensor made;
      bool zero = slot.source == ZERO;
      for (size_t o = 0; (own || clear) && o < plan.outputs.size(); ++o) {
        if (size_t(plan.outputs[o]) != n) continue;
        if (own) made = (*own)[o];
        zero |= clear;
      }
      if (!made.defined() && slot.source == KEPT) {
        made = kept_zeros(plan, n, stream, capturing, capture);
        if (!made.defined()) return false;
      } else if (!made.defined()) {
        made = at::empty_strided(slot.sizes, slot.strides, at::TensorOptions().dtype(slot.type).device(plan.device));
        const size_t bytes = made.numel() * made.element_size();
        if (zero && (capturing || driver.fill(made.data_ptr(), 0, bytes, stream))) made.zero_();
      }
      held.push_back(std::move(made));
      placed[n] = &held.back();
    }
    plan.addresses[n] = placed[n]->data_ptr();
    if (reinterpret_cast<size_t>(plan.addresses[n]) % ALIGNED) return false;
  }
  for (Map& map : plan.maps) {
    void* const address = plan.addresses[map.slot];
    if (map.address == address) continue;
    const int status = driver.encode(&map.encoded, map.type, map.rank, address, map.sizes, map.strides, map.box,
                                     map.steps, 0, map.swizzle, 3, 0);  // L2 promotion of 256 bytes, zeros outside
    if (status) throw Failure{status};
    map.address = address;
  }
  for (const Step& step : plan.steps) {
    for (size_t n = 0; n < step.arguments.size(); ++n) {
      const Argument& argument = step.arguments[n];
      plan.parameters[n] = argument.kind == 't'   ? (void*)&plan.addresses[argument.number]
                           : argument.kind == 'm' ? (void*)&plan.maps[argument.number].encoded
                                                  : (void*)&plan.values[argument.number];
    }
    int status = launch(step, plan.parameters.data(), stream);
    if (status == NO_CONTEXT) {
      int number = 0;
      void* context = nullptr;
      if (!driver.device_of(&number, plan.device.index()) && !driver.retain(&context, number)) {
        driver.set_current(context);
        status = launch(step, plan.parameters.data(), stream);
      }
    }
    if (status) throw Failure{status};
  }
  outputs.reserve(plan.outputs.size());
  for (const int number : plan.outputs) outputs.push_back(*placed[number]);
  return true;
}

// ---- plans by the shapes of a call ----

struct Options {
  double scale;
  bool causal;
  std::string kernel;
};

std::shared_mutex plans_lock;
std::unordered_map<std::string, std::shared_ptr<Plan>> plans;

void add(std::string& key, const void* bytes, size_t count) { key.append(static_cast<const char*>(bytes), count); }
const std::string& key_of(char kind, const Tensor* tensors, size_t count, const Options& options) {
  static thread_local std::string key;
  key.assign(1, kind);
  for (size_t n = 0; n < count; ++n) {
    const Tensor& x = tensors[n];
    const c10::Device device = x.device();
    const char head[4] = {char(x.scalar_type()), char(device.type()), char(device.index()), char(x.dim())};
    add(key, head, sizeof head);
    add(key, x.sizes().data(), x.dim() * sizeof(int64_t));
    add(key, x.strides().data(), x.dim() * sizeof(int64_t));
  }
  add(key, &options.scale, sizeof options.scale);
  key.push_back(options.causal);
  key += options.kernel;
  return key;
}
std::shared_ptr<Plan> plan_of(char kind, const Tensor* tensors, size_t count, const Options& options) {
  const std::string& key = key_of(kind, tensors, count, options);
  const std::shared_lock<std::shared_mutex> hold(plans_lock);
  const auto found = plans.find(key);
  return found == plans.end() ? nullptr : found->second;
}

// Whether it is a plain tensor of torch. Other tensors go through the dispatcher.
bool is_plain(const Tensor& x) {
  using c10::DispatchKey;
  static const c10::DispatchKeySet others({DispatchKey::Python, DispatchKey::PythonTLSSnapshot,
                                           DispatchKey::Functionalize, DispatchKey::FuncTorchBatched,
                                           DispatchKey::FuncTorchGradWrapper, DispatchKey::Conjugate,
                                           DispatchKey::Negative, DispatchKey::Batched, DispatchKey::ZeroTensor});
  return (x.is_cuda() || x.is_cpu()) && x.layout() == at::kStrided && !x.key_set().has_any(others);
}
bool no_modes() {
  using c10::DispatchKey;
  static const c10::DispatchKeySet modes(
      {DispatchKey::Python, DispatchKey::PythonTLSSnapshot, DispatchKey::PythonDispatcher, DispatchKey::Functionalize,
       DispatchKey::FuncTorchDynamicLayerFrontMode, DispatchKey::FuncTorchDynamicLayerBackMode,
       DispatchKey::FuncTorchBatched, DispatchKey::Tracer});
  return !c10::impl::tls_local_dispatch_key_set().included_.has_any(modes);
}

// ---- gradients ----

variable_list backward_by_python(const variable_list& tensors, const Options& options) {
  const pybind11::gil_scoped_acquire gil;
  PyObject* arguments = PyTuple_New(tensors.size() + 3);
  size_t n = 0;
  for (const Tensor& tensor : tensors) PyTuple_SET_ITEM(arguments, n++, THPVariable_Wrap(tensor));
  PyTuple_SET_ITEM(arguments, n++, PyFloat_FromDouble(options.scale));
  PyTuple_SET_ITEM(arguments, n++, PyBool_FromLong(options.causal));
  PyTuple_SET_ITEM(arguments, n++, PyUnicode_FromStringAndSize(options.kernel.data(), options.kernel.size()));
  PyObject* made = PyObject_CallObject(python_backward, arguments);
  Py_DECREF(arguments);
  if (!made) {
    python_error error;
    error.persist();
    throw error;
  }
  variable_list found;
  for (Py_ssize_t i = 0; i < PySequence_Size(made); ++i) {
    PyObject* item = PySequence_GetItem(made, i);
    found.push_back(THPVariable_Unpack(item));
    Py_DECREF(item);
  }
  Py_DECREF(made);
  return found;
}

[[noreturn]] void raise_status(int status) {
  const pybind11::gil_scoped_acquire gil;
  PyObject* made = PyObject_CallFunction(failed, "i", status);
  Py_XDECREF(made);
  if (made) PyErr_Format(PyExc_RuntimeError, "CUDA's driver answered %d to a launch.", status);
  python_error error;
  error.persist();
  throw error;
}

class Attention : public torch::autograd::Function<Attention> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                               int64_t of_forward, double scale, bool causal, const std::string& kernel) {
    const variable_list& made = *reinterpret_cast<const variable_list*>(of_forward);
    ctx->save_for_backward({q, k, v, made[0], made[1]});
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["causal"] = causal;
    ctx->saved_data["kernel"] = kernel;
    ctx->mark_non_differentiable({made[1]});
    return made;
  }

  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    variable_list given = ctx->get_saved_variables(), found;
    given.push_back(gradients[0].defined() ? gradients[0] : at::zeros_like(given[3]));
    const Options options = {ctx->saved_data["scale"].toDouble(), ctx->saved_data["causal"].toBool(),
                             ctx->saved_data["kernel"].toStringRef()};
    {
      const at::AutoGradMode none(false);
      const std::shared_ptr<Plan> plan =
          paused || !no_modes() ? nullptr : plan_of('b', given.data(), given.size(), options);
      bool done = false;
      try {
        done = plan && run(*plan, given.data(), given.size(), found);
      } catch (const Failure& failure) {
        raise_status(failure.status);
      }
      if (!done) found = backward_by_python(given, options);
    }
    if (at::GradMode::is_enabled()) {
      const auto refuse = std::make_shared<torch::autograd::DelayedError>(
          "attention has no second gradient: it is marked with @once_differentiable", int64_t(found.size()));
      for (Tensor& one : found) one = one.detach().requires_grad_();
      found = (*refuse)(std::move(found));
    }
    found.resize(7);
    return found;
  }
};

// ---- Python ----

PyObject* wrapped(const variable_list& tensors) {
  PyObject* made = PyTuple_New(tensors.size());
  for (size_t n = 0; n < tensors.size(); ++n) PyTuple_SET_ITEM(made, n, THPVariable_Wrap(tensors[n]));
  return made;
}

const char* const CAPSULE = "warpglass.plan";
std::shared_ptr<Plan>* plan_in(PyObject* capsule) {
  return static_cast<std::shared_ptr<Plan>*>(PyCapsule_GetPointer(capsule, CAPSULE));
}

bool unpack(PyObject* const* objects, size_t count, variable_list& tensors) {
  tensors.reserve(count);
  for (size_t n = 0; n < count; ++n) {
    if (!THPVariable_CheckExact(objects[n])) return false;
    tensors.push_back(THPVariable_Unpack(objects[n]));
    if (!is_plain(tensors.back())) return false;
  }
  return true;
}

// Runs the plan without the GIL. None if Python has to take the call.
PyObject* run_or_none(Plan& plan, const variable_list& given, variable_list& outputs,
                      const variable_list* own = nullptr, bool clear = false) {
  bool done = false;
  int status = 0;
  {
    const pybind11::gil_scoped_release no_gil;
    try {
      done = run(plan, given.data(), given.size(), outputs, own, clear);
    } catch (const Failure& failure) {
      status = failure.status;
    }
  }
  if (status) raise_status(status);
  return done ? Py_True : Py_None;
}

// The text of a str, or "" for None. nullptr after an error.
const char* text_of(PyObject* object) { return object == Py_None ? "" : PyUnicode_AsUTF8(object); }

// attention(q, k, v, scale or None, causal, kernel or None, backward_kernel or None) -> (o, lse), or None
PyObject* attention(PyObject*, PyObject* const* objects, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  variable_list given;
  if (count != 7 || paused || !no_modes() || !unpack(objects, 3, given) || given[0].dim() != 4) Py_RETURN_NONE;
  const c10::DeviceType device = given[0].device().type();
  if (at::autocast::is_autocast_enabled(device) &&
      at::autocast::get_autocast_dtype(device) != given[0].scalar_type()) {
    Py_RETURN_NONE;  // Python casts first
  }
  const char *kernel = text_of(objects[5]), *backward = text_of(objects[6]);
  const double width = given[0].size(3);
  const double scale = objects[3] == Py_None ? std::pow(width, -0.5) : PyFloat_AsDouble(objects[3]);
  if (!kernel || !backward || PyErr_Occurred()) return nullptr;
  const Options options = {scale, PyObject_IsTrue(objects[4]) == 1, kernel};
  const std::shared_ptr<Plan> plan = plan_of('f', given.data(), 3, options);
  if (!plan) Py_RETURN_NONE;
  const bool learns =
      at::GradMode::is_enabled() && (given[0].requires_grad() || given[1].requires_grad() || given[2].requires_grad());
  variable_list outputs;
  {
    const at::AutoGradMode none(false);
    if (run_or_none(*plan, given, outputs) == Py_None) Py_RETURN_NONE;
  }
  if (learns) {
    outputs = Attention::apply(given[0], given[1], given[2], reinterpret_cast<int64_t>(&outputs), scale,
                               options.causal, std::string(backward));
  }
  return wrapped(outputs);
  END_HANDLE_TH_ERRORS
}

// backward(q, k, v, o, lse, do, scale, causal, kernel) -> (dq, dk, dv), or None
PyObject* backward(PyObject*, PyObject* const* objects, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  variable_list given, outputs;
  if (count != 9 || paused || !no_modes() || !unpack(objects, 6, given)) Py_RETURN_NONE;
  Py_ssize_t letters = 0;
  const char* text = PyUnicode_AsUTF8AndSize(objects[8], &letters);
  const double scale = PyFloat_AsDouble(objects[6]);
  if (!text || PyErr_Occurred()) return nullptr;
  const std::shared_ptr<Plan> plan =
      plan_of('b', given.data(), 6, {scale, PyObject_IsTrue(objects[7]) == 1, std::string(text, letters)});
  if (!plan) Py_RETURN_NONE;
  const at::AutoGradMode none(false);
  if (run_or_none(*plan, given, outputs) == Py_None) Py_RETURN_NONE;
  return wrapped(outputs);
  END_HANDLE_TH_ERRORS
}

// run(plan, tensors, outputs or None) -> the plan's outputs, or None
PyObject* run_plan(PyObject*, PyObject* const* objects, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  variable_list given, outputs, own;
  if (count != 3 || paused || !no_modes()) Py_RETURN_NONE;
  const std::shared_ptr<Plan>* plan = plan_in(objects[0]);
  if (!plan) return nullptr;
  for (int part : {1, 2}) {
    if (objects[part] == Py_None) continue;
    if (!PyTuple_CheckExact(objects[part])) {
      PyErr_SetString(PyExc_TypeError, "run takes a plan, a tuple of tensors, and a tuple of outputs or None.");
      return nullptr;
    }
    PyObject** first = &PyTuple_GET_ITEM(objects[part], 0);
    if (!unpack(first, PyTuple_GET_SIZE(objects[part]), part == 1 ? given : own)) Py_RETURN_NONE;
  }
  const at::AutoGradMode none(false);
  if (run_or_none(**plan, given, outputs, own.empty() ? nullptr : &own) == Py_None) Py_RETURN_NONE;
  return wrapped(outputs);
  END_HANDLE_TH_ERRORS
}

// call(kind, tensors, scale, tag, outputs, None for new ones, or False for zeros) -> the outputs of the plan kept under this kind and tag, or None
PyObject* call(PyObject*, PyObject* const* objects, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  variable_list given, outputs, own;
  if (count != 5 || paused || !no_modes()) Py_RETURN_NONE;
  for (int part : {1, 4}) {
    if (objects[part] == Py_None || objects[part] == Py_False) continue;
    if (!PyTuple_CheckExact(objects[part])) {
      PyErr_SetString(PyExc_TypeError, "call takes a kind, a tuple of tensors, a scale, a tag, and outputs or None.");
      return nullptr;
    }
    PyObject** first = &PyTuple_GET_ITEM(objects[part], 0);
    if (!unpack(first, PyTuple_GET_SIZE(objects[part]), part == 1 ? given : own)) Py_RETURN_NONE;
  }
  const char *kind = PyUnicode_AsUTF8(objects[0]), *tag = PyUnicode_AsUTF8(objects[3]);
  const double scale = PyFloat_AsDouble(objects[2]);
  if (!kind || !tag || PyErr_Occurred()) return nullptr;
  const std::shared_ptr<Plan> plan = plan_of(*kind, given.data(), given.size(), {scale, false, tag});
  if (!plan) Py_RETURN_NONE;
  const at::AutoGradMode none(false);
  if (run_or_none(*plan, given, outputs, own.empty() ? nullptr : &own, objects[4] == Py_False) == Py_None) Py_RETURN_NONE;
  return wrapped(outputs);
  END_HANDLE_TH_ERRORS
}

// set_up(driver's library, c10's CUDA library or "", failed, backward)
PyObject* set_up(PyObject*, PyObject* arguments) {
  const char *of_driver, *of_streams;
  if (!PyArg_ParseTuple(arguments, "ssOO", &of_driver, &of_streams, &failed, &python_backward)) return nullptr;
  Py_INCREF(failed), Py_INCREF(python_backward);
  void* const library = dlopen(of_driver, RTLD_NOW);
  bool ok = library && find(library, "cuLaunchKernel", driver.launch) &&
            find(library, "cuLaunchKernelEx", driver.launch_with) &&
            find(library, "cuTensorMapEncodeTiled", driver.encode) &&
            find(library, "cuStreamGetCaptureInfo", driver.capturing) &&
            find(library, "cuMemsetD8Async", driver.fill) &&
            find(library, "cuDeviceGet", driver.device_of) &&
            find(library, "cuDevicePrimaryCtxRetain", driver.retain) &&
            find(library, "cuCtxSetCurrent", driver.set_current);
  if (ok && *of_streams) {
    void* const streams = dlopen(of_streams, RTLD_NOW);
    ok = streams && find(streams, "_ZN3c104cuda20getCurrentCUDAStreamEa", current_stream) &&
         find(streams, "_ZNK3c104cuda10CUDAStream6streamEv", raw_stream);
  }
  return PyBool_FromLong(ok);
}

void delete_plan(PyObject* capsule) { delete plan_in(capsule); }

std::vector<int64_t> numbers(PyObject* sequence) {
  std::vector<int64_t> found;
  for (Py_ssize_t n = 0; n < PySequence_Size(sequence); ++n) {
    PyObject* item = PySequence_GetItem(sequence, n);
    found.push_back(PyLong_AsLongLong(item));
    Py_DECREF(item);
  }
  return found;
}

// plan(a tensor on the device, slots, maps, steps, values, outputs) -> a capsule
//   slot  (source, number, sizes, strides, order, a tensor of its type: the constant itself, or empty)
//   map   (slot, type, swizzle, sizes, strides, box), the innermost dimension first
//   step  (function, grid, block, shared_bytes, "tmv..." kinds, numbers, bytes of a CUlaunchConfig or None)
PyObject* make_plan(PyObject*, PyObject* arguments) {
  HANDLE_TH_ERRORS
  PyObject *place, *slots, *maps, *steps, *outputs;
  const char* values;
  Py_ssize_t value_bytes;
  if (!PyArg_ParseTuple(arguments, "OOOOy#O", &place, &slots, &maps, &steps, &values, &value_bytes, &outputs)) {
    return nullptr;
  }
  auto plan = std::make_shared<Plan>();
  plan->device = THPVariable_Unpack(place).device();
  plan->values.assign(values, value_bytes);
  size_t most = 1;
  for (Py_ssize_t n = 0; n < PyTuple_Size(slots); ++n) {
    Slot slot;
    int source;
    PyObject *sizes, *strides, *order, *constant;
    if (!PyArg_ParseTuple(PyTuple_GetItem(slots, n), "iiOOOO", &source, &slot.number, &sizes, &strides, &order,
                          &constant)) {
      return nullptr;
    }
    slot.source = Source(source), slot.sizes = numbers(sizes), slot.strides = numbers(strides);
    slot.order = numbers(order);
    slot.constant = THPVariable_Unpack(constant), slot.type = slot.constant.scalar_type();
    plan->slots.push_back(std::move(slot));
  }
  for (Py_ssize_t n = 0; n < PyTuple_Size(maps); ++n) {
    Map map;
    PyObject *sizes, *strides, *box;
    if (!PyArg_ParseTuple(PyTuple_GetItem(maps, n), "iiiOOO", &map.slot, &map.type, &map.swizzle, &sizes, &strides,
                          &box)) {
      return nullptr;
    }
    const std::vector<int64_t> of_sizes = numbers(sizes), of_strides = numbers(strides), of_box = numbers(box);
    map.rank = of_sizes.size();
    for (int i = 0; i < map.rank; ++i) {
      map.sizes[i] = of_sizes[i], map.box[i] = of_box[i];
      if (i + 1 < map.rank) map.strides[i] = of_strides[i];
    }
    plan->maps.push_back(map);
  }
  for (Py_ssize_t n = 0; n < PyTuple_Size(steps); ++n) {
    Step step;
    unsigned long long function;
    const char *kinds, *config = nullptr;
    Py_ssize_t kind_count, config_bytes = 0;
    PyObject* of_arguments;
    if (!PyArg_ParseTuple(PyTuple_GetItem(steps, n), "K(III)(III)Is#Oz#", &function, &step.grid[0], &step.grid[1],
                          &step.grid[2], &step.block[0], &step.block[1], &step.block[2], &step.shared_bytes, &kinds,
                          &kind_count, &of_arguments, &config, &config_bytes)) {
      return nullptr;
    }
    step.function = reinterpret_cast<void*>(function);
    const std::vector<int64_t> places = numbers(of_arguments);
    for (Py_ssize_t i = 0; i < kind_count; ++i) step.arguments.push_back({kinds[i], int(places[i])});
    most = std::max(most, step.arguments.size());
    step.has_config = config != nullptr;
    if (config) {
      if (size_t(config_bytes) != sizeof step.config) {
        PyErr_Format(PyExc_ValueError, "A CUlaunchConfig has %zu bytes, not %zd.", sizeof step.config, config_bytes);
        return nullptr;
      }
      std::memcpy(&step.config, config, sizeof step.config);
    }
    plan->steps.push_back(std::move(step));
  }
  for (const int64_t number : numbers(outputs)) plan->outputs.push_back(int(number));
  if (PyErr_Occurred()) return nullptr;
  plan->addresses.resize(plan->slots.size());
  plan->parameters.resize(most);
  return PyCapsule_New(new std::shared_ptr<Plan>(std::move(plan)), CAPSULE, delete_plan);
  END_HANDLE_TH_ERRORS
}

// keep(kind "f" or "b", tensors, scale, causal, kernel, plan)
PyObject* keep(PyObject*, PyObject* arguments) {
  HANDLE_TH_ERRORS
  const char *kind, *kernel;
  PyObject *tensors, *capsule;
  double scale;
  int causal;
  if (!PyArg_ParseTuple(arguments, "sOdpsO", &kind, &tensors, &scale, &causal, &kernel, &capsule)) return nullptr;
  variable_list given;
  const std::shared_ptr<Plan>* plan = plan_in(capsule);
  if (!plan || !unpack(&PyTuple_GET_ITEM(tensors, 0), PyTuple_Size(tensors), given)) {
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_FALSE;
  }
  const std::string key = key_of(*kind, given.data(), given.size(), {scale, causal != 0, kernel});
  const std::unique_lock<std::shared_mutex> hold(plans_lock);
  plans[key] = *plan;
  Py_RETURN_TRUE;
  END_HANDLE_TH_ERRORS
}

// keep_zeros(plan, slot, stream, tensor, zeros for the next graph or None) -> whether the next graph has zeros
PyObject* keep_zeros(PyObject*, PyObject* arguments) {
  HANDLE_TH_ERRORS
  PyObject *capsule, *tensor, *next;
  int slot;
  unsigned long long stream;
  if (!PyArg_ParseTuple(arguments, "OiKOO", &capsule, &slot, &stream, &tensor, &next)) return nullptr;
  const std::shared_ptr<Plan>* plan = plan_in(capsule);
  if (!plan) return nullptr;
  const std::lock_guard<std::mutex> hold((*plan)->lock);
  (*plan)->zeros[{reinterpret_cast<void*>(stream), slot}] = THPVariable_Unpack(tensor);
  if (next != Py_None) (*plan)->next[slot] = THPVariable_Unpack(next);
  return PyBool_FromLong((*plan)->next.count(slot));
  END_HANDLE_TH_ERRORS
}

PyObject* pause(PyObject*, PyObject* on) {
  paused = PyObject_IsTrue(on) == 1;
  Py_RETURN_NONE;
}

// capture(a tensor) -> the number of the graph that the current stream of its device records, or 0
PyObject* capture(PyObject*, PyObject* tensor) {
  HANDLE_TH_ERRORS
  const c10::Device device = THPVariable_Unpack(tensor).device();
  int capturing = 0;
  unsigned long long number = 0;
  if (device.is_cuda() && driver.capturing(stream_of(device), &capturing, &number)) capturing = 0;
  return PyLong_FromUnsignedLongLong(capturing ? number + 1 : 0);
  END_HANDLE_TH_ERRORS
}

PyObject* forget(PyObject*, PyObject*) {
  const std::unique_lock<std::shared_mutex> hold(plans_lock);
  plans.clear();
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"attention", reinterpret_cast<PyCFunction>(attention), METH_FASTCALL, nullptr},
    {"backward", reinterpret_cast<PyCFunction>(backward), METH_FASTCALL, nullptr},
    {"run", reinterpret_cast<PyCFunction>(run_plan), METH_FASTCALL, nullptr},
    {"call", reinterpret_cast<PyCFunction>(call), METH_FASTCALL, nullptr},
    {"set_up", set_up, METH_VARARGS, nullptr},
    {"plan", make_plan, METH_VARARGS, nullptr},
    {"keep", keep, METH_VARARGS, nullptr},
    {"keep_zeros", keep_zeros, METH_VARARGS, nullptr},
    {"capture", capture, METH_O, nullptr},
    {"pause", pause, METH_O, nullptr},
    {"forget", forget, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "warpglass_launcher", nullptr, -1, methods};
}  // namespace

PyMODINIT_FUNC PyInit_warpglass_launcher() { return PyModule_Create(&module); }
