// A simulated accelerator for PyTorch's PrivateUse1 backend, with two devices. It behaves like CUDA where CUDA is hard to
// use correctly:
// - Streams run late: each has its own thread, which can wait before every operation.
// - Copies from pinned memory are asynchronous. They read the source when they run, not when they are queued.
// - The allocator returns a freed block at once to the stream that allocated it, with its old content.
// - A copy can fail, and memory can run out, on request.
// Device memory is host memory, so operators without an implementation here run on the CPU.
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <thread>

using namespace c10;

namespace {

constexpr DeviceType kType = DeviceType::PrivateUse1;
constexpr int kDevices = 2;
constexpr size_t kBlock = 512;   // allocation size and alignment, as on CUDA
constexpr size_t kPage = 4096;

std::atomic<int> default_delay_us{0}, delay_us{0};  // of default streams, and of all others
std::atomic<long> copies_until_failure{-1};
std::atomic<long> live_bytes{0}, peak_bytes{0}, limit_bytes{1L << 40};

// ---- streams and events ----

class Queue {  // the operations of one stream, in order
 public:
  explicit Queue(const std::atomic<int>& delay) : delay_(delay) {
    std::thread([this] { run(); }).detach();
  }
  void add(std::function<void()> work) {
    std::lock_guard lock(mutex_);
    works_.push_back(std::move(work));
    added_++;
    changed_.notify_all();
  }
  void synchronize() {
    std::unique_lock lock(mutex_);
    const auto target = added_;
    changed_.wait(lock, [&] { return done_ >= target; });
  }
  bool idle() {
    std::lock_guard lock(mutex_);
    return done_ == added_;
  }

 private:
  void run() {
    std::mt19937 random(std::hash<void*>()(this));
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !works_.empty(); });
      auto work = std::move(works_.front());
      works_.pop_front();
      lock.unlock();
      if (const int delay = delay_) std::this_thread::sleep_for(std::chrono::microseconds(delay / 2 + random() % delay));
      work();
      lock.lock();
      done_++;
      changed_.notify_all();
    }
  }
  const std::atomic<int>& delay_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> works_;
  uint64_t added_ = 0, done_ = 0;
};

struct Event {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t recorded = 0, reached = 0;

  bool complete() { std::lock_guard lock(mutex); return reached >= recorded; }
  void wait_for(uint64_t number) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return reached >= number; });
  }
};

std::mutex queues_mutex;
std::map<std::pair<int, StreamId>, Queue*> queues;  // never freed, like the streams of CUDA's pool
std::atomic<StreamId> next_stream{1};
thread_local int current_device = 0;
thread_local std::map<int, StreamId> current_streams;

Queue& queue_of(int device, StreamId id) {
  std::lock_guard lock(queues_mutex);
  auto*& queue = queues[{device, id}];
  if (!queue) queue = new Queue(id ? delay_us : default_delay_us);
  return *queue;
}
Queue& queue_of(const Stream& stream) { return queue_of(stream.device_index(), stream.id()); }
Queue& current_queue(int device) { return queue_of(device, current_streams[device]); }
int index_of(Device device) { return device.index() < 0 ? current_device : device.index(); }

struct Guard final : impl::DeviceGuardImplInterface {
  DeviceType type() const override { return kType; }
  DeviceIndex deviceCount() const noexcept override { return kDevices; }
  Device getDevice() const override { return Device(kType, current_device); }
  Device exchangeDevice(Device device) const override { auto old = getDevice(); setDevice(device); return old; }
  void setDevice(Device device) const override {
    TORCH_CHECK(device.index() < kDevices, "invalid device ordinal");
    uncheckedSetDevice(device);
  }
  void uncheckedSetDevice(Device device) const noexcept override { current_device = index_of(device); }

  Stream stream(Device device, StreamId id) const { return Stream(Stream::UNSAFE, Device(kType, index_of(device)), id); }
  Stream getStream(Device device) const override { return stream(device, current_streams[index_of(device)]); }
  Stream getDefaultStream(Device device) const override { return stream(device, 0); }
  Stream getNewStream(Device device, int) const override { return stream(device, next_stream++); }
  Stream getStreamFromGlobalPool(Device device, bool) const override { return getNewStream(device, 0); }
  Stream exchangeStream(Stream to) const override {
    auto old = getStream(to.device());
    current_streams[to.device_index()] = to.id();
    return old;
  }
  bool queryStream(const Stream& stream) const override { return queue_of(stream).idle(); }
  void synchronizeStream(const Stream& stream) const override { queue_of(stream).synchronize(); }
  void synchronizeDevice(const DeviceIndex device) const override {
    std::vector<Queue*> all;
    {
      std::lock_guard lock(queues_mutex);
      for (auto& [key, queue] : queues)
        if (key.first == device) all.push_back(queue);
    }
    for (auto* queue : all) queue->synchronize();
  }

  void record(void** handle, const Stream& stream, const DeviceIndex, const EventFlag) const override {
    if (!*handle) *handle = new Event;
    auto* event = static_cast<Event*>(*handle);
    uint64_t number;
    {
      std::lock_guard lock(event->mutex);
      number = ++event->recorded;
    }
    queue_of(stream).add([event, number] {
      std::lock_guard lock(event->mutex);
      event->reached = std::max(event->reached, number);
      event->changed.notify_all();
    });
  }
  void block(void* handle, const Stream& stream) const override {
    if (!handle) return;
    auto* event = static_cast<Event*>(handle);
    std::unique_lock lock(event->mutex);
    const auto number = event->recorded;
    lock.unlock();
    queue_of(stream).add([event, number] { event->wait_for(number); });
  }
  bool queryEvent(void* handle) const override { return !handle || static_cast<Event*>(handle)->complete(); }
  void synchronizeEvent(void* handle) const override {
    if (!handle) return;
    auto* event = static_cast<Event*>(handle);
    std::unique_lock lock(event->mutex);
    const auto number = event->recorded;
    event->changed.wait(lock, [&] { return event->reached >= number; });
  }
  void destroyEvent(void*, const DeviceIndex) const noexcept override {}  // queued operations may still use it
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

// ---- memory ----

struct Block { size_t size; int device; StreamId stream; };
std::mutex blocks_mutex;
std::map<void*, Block> blocks;                                               // live
std::map<std::tuple<int, StreamId, size_t>, std::vector<void*>> free_blocks;  // by device, stream and size

struct DeviceAllocator final : Allocator {
  DataPtr allocate(size_t size) override {
    const int device = current_device;
    if (!size) return {nullptr, nullptr, &release, Device(kType, device)};
    size = (size + kBlock - 1) / kBlock * kBlock;
    std::lock_guard lock(blocks_mutex);
    TORCH_CHECK_WITH(OutOfMemoryError, live_bytes + static_cast<long>(size) <= limit_bytes,
                     "simulated device out of memory. Tried to allocate ", size, " bytes");
    const auto stream = current_streams[device];
    auto& reusable = free_blocks[{device, stream, size}];
    void* memory;
    if (reusable.empty()) {
      memory = std::memset(std::aligned_alloc(kBlock, size), 0xCD, size);
    } else {
      memory = reusable.back();
      reusable.pop_back();
    }
    blocks[memory] = {size, device, stream};
    live_bytes += size;
    if (live_bytes > peak_bytes) peak_bytes = live_bytes.load();
    return {memory, memory, &release, Device(kType, device)};
  }
  static void release(void* memory) {
    std::lock_guard lock(blocks_mutex);
    const auto found = blocks.find(memory);
    if (found == blocks.end()) return;
    const auto block = found->second;
    blocks.erase(found);
    live_bytes -= block.size;
    free_blocks[{block.device, block.stream, block.size}].push_back(memory);
  }
  DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t size) const override { std::memcpy(to, from, size); }
} device_allocator;
REGISTER_ALLOCATOR(kType, &device_allocator);

std::mutex pinned_mutex;
std::map<const char*, size_t> pinned;  // never freed, because a queued copy may still read it

bool is_pinned(const void* pointer) {
  std::lock_guard lock(pinned_mutex);
  auto after = pinned.upper_bound(static_cast<const char*>(pointer));
  return after != pinned.begin() && static_cast<const char*>(pointer) < std::prev(after)->first + std::prev(after)->second;
}

struct PinnedAllocator final : Allocator {
  DataPtr allocate(size_t size) override {
    size = std::max((size + kPage - 1) / kPage * kPage, kPage);
    auto* memory = static_cast<char*>(std::aligned_alloc(kPage, size));
    std::lock_guard lock(pinned_mutex);
    pinned[memory] = size;
    return {memory, memory, &release, Device(DeviceType::CPU)};
  }
  static void release(void*) {}
  DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t size) const override { std::memcpy(to, from, size); }
} pinned_allocator;

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return kDevices; }
  DeviceIndex getCurrentDevice() const override { return current_device; }
  void setCurrentDevice(DeviceIndex device) const override { current_device = device; }
  DeviceIndex exchangeDevice(DeviceIndex device) const override { return std::exchange(current_device, device); }
  DeviceIndex maybeExchangeDevice(DeviceIndex device) const override { return exchangeDevice(device); }
  bool isPinnedPtr(const void* pointer) const override { return is_pinned(pointer); }
  Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator; }
};
const bool registered = [] { at::RegisterPrivateUse1HooksInterface(new Hooks); return true; }();

// ---- operators ----

using Sizes = IntArrayRef;
template <class T> using Maybe = std::optional<T>;

at::Tensor empty(Sizes size, Maybe<ScalarType> type, Maybe<Layout>, Maybe<Device> device, Maybe<bool>, Maybe<MemoryFormat> format) {
  DeviceGuard guard(*device);
  return at::detail::empty_generic(size, &device_allocator, DispatchKeySet(DispatchKey::PrivateUse1), type.value_or(at::kFloat), format);
}
at::Tensor empty_strided(Sizes size, Sizes stride, Maybe<ScalarType> type, Maybe<Layout>, Maybe<Device> device, Maybe<bool>) {
  DeviceGuard guard(*device);
  return at::detail::empty_strided_generic(size, stride, &device_allocator, DispatchKeySet(DispatchKey::PrivateUse1), type.value_or(at::kFloat));
}
at::Tensor on_cpu(const at::Tensor& tensor) {
  if (tensor.device().type() != kType) return tensor;
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU));
}
at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  if (!to.numel()) return to;
  const bool upload = from.is_cpu();
  TORCH_CHECK(!upload || copies_until_failure < 1 || --copies_until_failure, "simulated device error: a copy failed");
  auto& queue = current_queue((to.device().type() == kType ? to : from).device().index());
  if (from.dtype() != to.dtype() || !from.is_contiguous() || !to.is_contiguous()) {
    queue.synchronize();
    on_cpu(to).copy_(on_cpu(from));
    return to;
  }
  queue.add([to = to.data_ptr(), from = from.data_ptr(), size = to.nbytes()] { std::memcpy(to, from, size); });
  const bool both_here = from.device() == to.device();
  if (!both_here && !(non_blocking && is_pinned(upload ? from.data_ptr() : to.data_ptr()))) queue.synchronize();
  return to;
}
void run_on_cpu(const OperatorHandle& op, torch::jit::Stack* stack) {
  for (int device = 0; device < kDevices; device++) current_queue(device).synchronize();
  at::native::cpu_fallback(op, stack);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>()); }
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", [](const at::Tensor& from, const at::Tensor& to) { return copy_from(from, to, false); });
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("view", &at::native::view);
  m.impl("_reshape_alias", &at::native::_reshape_alias);
  m.impl("set_.source_Storage_storage_offset", [](at::Tensor& tensor, Storage storage, int64_t offset, Sizes size, Sizes stride)
         -> at::Tensor& { return at::native::set_storage_cpu_(tensor, storage, offset, size, stride); });
  m.impl("set_.source_Storage", [](at::Tensor& tensor, Storage storage) -> at::Tensor& {
    const auto count = static_cast<int64_t>(storage.nbytes() / tensor.dtype().itemsize());
    return at::native::set_storage_cpu_(tensor, storage, 0, {count}, {1});
  });
  m.impl("_local_scalar_dense", [](const at::Tensor& tensor) {
    current_queue(tensor.device().index()).synchronize();
    return at::native::_local_scalar_dense_cpu(on_cpu(tensor));
  });
}

}  // namespace

extern "C" {
void simulated_delay(int default_streams, int other_streams) {
  default_delay_us = default_streams;
  delay_us = other_streams;
}
void simulated_fail_copy(long number) { copies_until_failure = number; }
void simulated_limit(long bytes) { limit_bytes = bytes; }
long simulated_live() { return live_bytes; }
long simulated_peak() { return peak_bytes.exchange(live_bytes); }
}
