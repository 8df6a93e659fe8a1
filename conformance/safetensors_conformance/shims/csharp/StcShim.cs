// Lets a safetensors reader in C# take part in the conformance suite. Add this file to your program:
//
//     static int Main() => StcShim.Serve("my-reader", "1.0", new[] { "dtype-f4" }, (path, withData, answer) =>
//     {
//         using (var file = MyReader.Open(path))  // an exception rejects the file
//         {
//             foreach (var t in file.Tensors)
//                 answer.Tensor(t.Name, t.DType, t.Shape, withData ? t.Bytes : null);
//             answer.Metadata(file.Metadata);
//         }
//     });
//
// Report what your reader reports, and do not parse anything yourself. The shim reads the requests one at a time,
// computes digests and writes the answers. Output of the reader goes to standard error. The shim needs only C# 7 and
// the base library.

using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Security.Cryptography;
using System.Text;

public static class StcShim
{
    /// <summary>Reads a file, or only opens it if withData is false. An exception rejects the file.</summary>
    public delegate void Read(string path, bool withData, Answer answer);

    /// <summary>Thrown for a valid file that the reader does not support.</summary>
    public sealed class UnsupportedException : Exception
    {
        public UnsupportedException(string why) : base(why) { }
    }

    /// <summary>The answer for one file.</summary>
    public sealed class Answer
    {
        private readonly bool summary;
        private readonly StringBuilder tensors = new StringBuilder();
        private StringBuilder metadata;
        private bool tellsMetadata;
        private long count;

        internal Answer(bool summary) { this.summary = summary; }

        /// <summary>
        /// Reports a tensor. Pass null for a dtype or shape that the reader does not report. The bytes must be in the
        /// order of the file, and are null if the file is only opened.
        /// </summary>
        public void Tensor<T>(string name, string dtype, IEnumerable<T> shape, byte[] bytes) where T : IFormattable
        {
            if (count++ > 0) tensors.Append(", ");
            if (summary) return;
            tensors.Append("{\"name\": ").Append(Quoted(name));
            if (dtype != null) tensors.Append(", \"dtype\": ").Append(Quoted(dtype));
            if (shape != null)
            {
                var dims = shape.Select(dim => dim.ToString("D", System.Globalization.CultureInfo.InvariantCulture));
                tensors.Append(", \"shape\": [").Append(string.Join(", ", dims)).Append("]");
            }
            if (bytes != null)
            {
                using (var sha = SHA256.Create())
                    tensors.Append(", \"nbytes\": ").Append(bytes.Length).Append(", \"sha256\": \"")
                        .Append(Hex(sha.ComputeHash(bytes))).Append("\"");
            }
            tensors.Append("}");
        }

        /// <summary>Reports the metadata map, where null means that the file has no metadata.</summary>
        public void Metadata(IEnumerable<KeyValuePair<string, string>> map)
        {
            tellsMetadata = true;
            if (map == null) return;
            metadata = metadata ?? new StringBuilder();
            foreach (var pair in map)
                metadata.Append(metadata.Length > 0 ? ", [" : "[").Append(Quoted(pair.Key)).Append(", ")
                    .Append(Quoted(pair.Value)).Append("]");
        }

        internal string Text()
        {
            if (summary) return ", \"tensor_count\": " + count;
            var text = ", \"tensors\": [" + tensors + "]";
            if (metadata != null) return text + ", \"metadata_items\": [" + metadata + "]";
            return tellsMetadata ? text + ", \"metadata\": null" : text;
        }
    }

    /// <summary>
    /// Answers requests until there are no more. <paramref name="lacks"/> names features that the reader
    /// lacks, such as "dtype-f4". Returns the exit status of the program.
    /// </summary>
    public static int Serve(string name, string version, IEnumerable<string> lacks, Read read)
    {
        var utf8 = new UTF8Encoding(false);
        using (var requests = new StreamReader(Console.OpenStandardInput(), utf8))
        using (var answers = Console.OpenStandardOutput())
        {
            Console.SetOut(Console.Error); // output of the reader must not appear between answers
            for (string line; (line = requests.ReadLine()) != null;)
            {
                var command = Member(line, "cmd");
                if (command == null || command.StartsWith("\"stop\"")) break;
                var answer = command.StartsWith("\"start\"") ? Start(name, version, lacks) : Run(line, read);
                var bytes = utf8.GetBytes(answer + "\n");
                answers.Write(bytes, 0, bytes.Length);
                answers.Flush(); // otherwise the harness waits forever
            }
        }
        return 0;
    }

    private static string Start(string name, string version, IEnumerable<string> lacks)
    {
        return "{\"protocol\": 1, \"steps\": [\"open\", \"read\"], \"lacks\": [" + string.Join(", ", lacks.Select(Quoted))
            + "], \"implementation\": {\"name\": " + Quoted(name) + ", \"version\": " + Quoted(version)
            + ", \"language\": \"C#\"}}";
    }

    private static string Run(string request, Read read)
    {
        var seq = new string(Member(request, "seq").TakeWhile(char.IsDigit).ToArray());
        var head = "{\"seq\": " + seq + ", \"outcome\": ";
        var step = Member(request, "step") ?? "";
        var reading = step.StartsWith("\"read\"");
        if (!reading && !step.StartsWith("\"open\"")) return head + "\"unsupported\"}";
        var answer = new Answer((Member(request, "summary") ?? "").StartsWith("true"));
        try
        {
            read(Unescaped(Member(request, "path")), reading, answer);
            return head + "\"accept\"" + answer.Text() + "}";
        }
        catch (UnsupportedException err)
        {
            return head + "\"unsupported\", \"message\": " + Message(err) + "}";
        }
        catch (OutOfMemoryException err)
        {
            return head + "\"exhausted\", \"message\": " + Message(err) + "}";
        }
        catch (Exception err)
        {
            return head + "\"reject\", \"message\": " + Message(err) + "}";
        }
    }

    private static string Message(Exception err)
    {
        return Quoted(err.GetType().Name + ": " + err.Message);
    }

    private static string Hex(IEnumerable<byte> bytes)
    {
        return string.Concat(bytes.Select(b => b.ToString("x2")));
    }

    /// <summary>
    /// Returns a JSON string. Half of a surrogate pair, which UTF-8 cannot encode, is escaped like a control
    /// character.
    /// </summary>
    private static string Quoted(string text)
    {
        var quoted = new StringBuilder("\"");
        for (var at = 0; at < text.Length; at++)
        {
            var c = text[at];
            if (at + 1 < text.Length && char.IsSurrogatePair(c, text[at + 1])) quoted.Append(text, at++, 2);
            else if (c < ' ' || c == '"' || c == '\\' || char.IsSurrogate(c))
                quoted.Append("\\u").Append(((int)c).ToString("x4"));
            else quoted.Append(c);
        }
        return quoted.Append("\"").ToString();
    }

    /// <summary>Returns the value of a key in the object, or null. Requests from the harness are always well formed.</summary>
    private static string Member(string text, string key)
    {
        var depth = 0;
        for (var at = 0; at < text.Length; at++)
        {
            if (text[at] == '{' || text[at] == '[') depth++;
            if (text[at] == '}' || text[at] == ']') depth--;
            if (text[at] != '"') continue;
            var begin = ++at;
            while (at < text.Length && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
            if (depth != 1 || at > text.Length || text.Substring(begin, at - begin) != key) continue;
            var rest = text.Substring(at + 1).TrimStart();
            if (rest.StartsWith(":")) return rest.Substring(1).TrimStart();
        }
        return null;
    }

    /// <summary>Returns the text of a JSON string.</summary>
    private static string Unescaped(string text)
    {
        var plain = new StringBuilder();
        for (var at = 1; text[at] != '"'; at++)
        {
            if (text[at] != '\\')
            {
                plain.Append(text[at]);
                continue;
            }
            var letter = text[++at];
            var known = "bfnrt".IndexOf(letter);
            if (letter == 'u')
            {
                plain.Append((char)Convert.ToInt32(text.Substring(at + 1, 4), 16));
                at += 4;
            }
            else plain.Append(known < 0 ? letter : "\b\f\n\r\t"[known]);
        }
        return plain.ToString();
    }
}
