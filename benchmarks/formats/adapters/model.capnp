@0xd1f2a3b4c5d6e7f8;

struct Model {
  tensors @0 :List(Tensor);
  text @1 :Text;
  bytes @2 :Data;
}

struct Tensor {
  name @0 :Text;
  dtype @1 :Text;
  shape @2 :List(UInt64);
  parts @3 :List(Part);  # a blob is shorter than 2^29 bytes
}

struct Part {
  data @0 :Data;
}
