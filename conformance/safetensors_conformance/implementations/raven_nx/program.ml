(* Calls Raven's Safetensors.deserialize, and returns the result to program.c: a rejection, or rows and metadata. *)

let read path =
  let channel = open_in_bin path in
  let file =
    Fun.protect
      ~finally:(fun () -> close_in channel)
      (fun () -> really_input_string channel (in_channel_length channel))
  in
  match Safetensors.deserialize file with
  | Error why -> Error (Safetensors.string_of_error why)
  | Ok held ->
      let row (name, (view : Safetensors.tensor_view)) =
        ( name,
          Safetensors.dtype_to_string view.dtype,
          Array.of_list view.shape,
          String.sub view.data view.offset view.length )
      in
      let pairs = Option.map Array.of_list held.metadata.metadata_kv in
      Ok (Array.of_list (List.map row (Safetensors.tensors held)), pairs)

let () = Callback.register "read" read
